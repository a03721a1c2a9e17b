package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/storage"
)

// crowded is a node with an online pod and two reclaimed ones, of which low has the lower priority.
func crowded(t *testing.T) (l *lender, web, low, high runtime.Sandbox) {
	l = newLender(t)
	web, low, high = sandbox("web", 2), sandbox("low", 0, "qos=reclaimed_cores", "besteffort"), sandbox("high", 0, "qos=reclaimed_cores", "besteffort")
	for _, s := range []*runtime.Sandbox{&low, &high} {
		s.Annotations[spec.AnnotationReclaimed] = "1000m/512Mi"
	}
	low.Annotations[spec.AnnotationPriority], high.Annotations[spec.AnnotationPriority] = "-10", "5"
	for _, s := range []runtime.Sandbox{web, low, high} {
		l.kernel.make(s.Cgroup)
		l.kernel.set(s.Cgroup+"/cgroup.kill", "")
		if err := l.agent.RunSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return l, web, low, high
}

func killed(l *lender, s *runtime.Sandbox) bool { return l.kernel.get(s.Cgroup+"/cgroup.kill") == "1" }

// Past the hard mark of memory the lowest reclaimed pod has its eviction requested at once, in the report; where nobody follows it is stopped, and not started
// again; then the node is closed. No other pod is touched.
func TestRelief(t *testing.T) {
	l, web, low, high := crowded(t)
	if calm := l.run(30); calm.Closed != "" || len(calm.Evictions) != 0 {
		t.Fatalf("with enough memory %+v", calm)
	}
	l.counters.free = [2]int{60, 60}
	short := l.run(12)
	if len(short.Evictions) == 0 || short.Evictions[0].UID != "low" || !short.Evictions[0].Urgent {
		t.Fatalf("requested are %+v, want the pod of the lowest priority, urgently", short.Evictions)
	}
	l.eventually("the request is reported", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.reports) == 0 {
			return false
		}
		c := l.reports[len(l.reports)-1].Status.Colocation
		return c != nil && len(c.Evictions) > 0
	})
	if killed(l, &low) {
		t.Fatal("it was stopped before anybody could follow")
	}
	l.run(int(spec.DefaultNodeEviction().Escalation.AnswerWithin.D() / time.Second))
	l.eventually("nobody followed, and the pod is stopped", func() bool { return killed(l, &low) })
	after := l.run(1)
	if !strings.HasPrefix(after.Closed, "MemoryAvailable") || after.Headroom.MilliCPU != 0 {
		t.Errorf("closed %q, headroom %+v", after.Closed, after.Headroom)
	}
	if err := l.agent.RunSandbox(t.Context(), low); err == nil || !strings.Contains(err.Error(), spec.ReasonStopped) {
		t.Errorf("the kubelet starts it again: %v", err)
	}
	if killed(l, &web) || killed(l, &high) {
		t.Error("another pod was stopped too, within a second of the first")
	}
	if told := l.events(); !slices.ContainsFunc(told, func(e string) bool { return strings.HasPrefix(e, "pod-low: "+spec.ReasonStopped) }) {
		t.Errorf("events %q", told)
	}
}

// short lets so many seconds pass, and waits after each for the answers of the budgets.
func (l *lender) short(seconds int) (out *spec.Colocation) {
	l.Helper()
	for range seconds {
		out = l.run(1)
		l.eventually("the budgets have answered", func() bool {
			asking := false
			l.agent.Ask(time.Minute, func(a *Agent) { asking = a.eviction.budgets.asking })
			return !asking
		})
	}
	return out
}

// Where a disruption budget refuses, the agent does not wait for an eviction that cannot come: first somebody else has its eviction requested, and where nobody
// else may go a pod is stopped.
func TestReliefKnowsWhatBudgetsRefuse(t *testing.T) {
	l, _, low, high := crowded(t)
	l.refused = []string{"low"}
	l.run(30)
	l.counters.free = [2]int{130, 120} // past the hard mark, but not by more than one pod holds
	said := l.short(12)
	if len(said.Evictions) != 2 || said.Evictions[1].UID != "high" {
		t.Errorf("low may not go; requested are %+v, want high too", said.Evictions)
	}
	if killed(l, &low) || killed(l, &high) {
		t.Fatal("a pod was stopped though one may go")
	}
	l.mu.Lock()
	l.refused = append(l.refused, "high")
	asked := l.inquiries
	l.mu.Unlock()
	l.short(12)
	l.eventually("none may go, and the lowest is stopped", func() bool { return killed(l, &low) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked > 6 {
		t.Errorf("in 12 s it was read %d times what budgets say", asked)
	}
}

// In a dry run it is decided who would have to go, and nobody goes.
func TestReliefDryRun(t *testing.T) {
	l, _, low, _ := crowded(t)
	l.agent.Ask(time.Minute, func(a *Agent) { a.eviction.params.DryRun = true })
	l.counters.free = [2]int{60, 60}
	said := l.run(120)
	var requests int
	var stops bool
	l.agent.Ask(time.Minute, func(a *Agent) {
		requests, stops = min(len(a.eviction.decision.Requests), len(a.eviction.decision.NoLending)), a.eviction.stopsLending()
	})
	if requests == 0 || len(said.Evictions) != 0 || said.Closed != "" || stops || killed(l, &low) {
		t.Errorf("%d requests; said %+v; lending stops: %v", requests, said, stops)
	}
}

// Limits by amount come to the kernel, and online pods are protected by what their containers' scores say that they asked for.
func TestMemoryRequests(t *testing.T) {
	l, web, low, _ := crowded(t)
	c := runtime.Container{ID: "c1", Sandbox: web.ID, Name: "main", Cgroup: web.Cgroup + "/c1", OOMScoreAdj: new(900)}
	for _, dir := range []string{"kubepods", "kubepods/burstable", web.Cgroup, c.Cgroup, low.Cgroup} {
		for file, text := range map[string]string{
			enforce.MemoryLow: "0", enforce.MemoryMin: "0", "memory.current": "104857600", enforce.MemoryMax: "max", enforce.MemoryHigh: "max",
		} {
			l.kernel.set(dir+"/"+file, text)
		}
	}
	l.kernel.make(c.Cgroup)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.agent.CreateContainer(ctx, web, c); err != nil {
		t.Fatal(err)
	}
	if err := l.agent.ContainerCreated(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	l.run(60)
	l.eventually("the reclaimed pod is limited", func() bool { return l.kernel.get(low.Cgroup+"/"+enforce.MemoryMax) == "536870912" })
	l.eventually("the online container is protected, on its whole path", func() bool {
		for _, dir := range []string{"kubepods", "kubepods/burstable", web.Cgroup, c.Cgroup} {
			if l.kernel.get(dir+"/"+enforce.MemoryLow) == "0" {
				return false
			}
		}
		return true
	})
}

// After a start nothing is published for three minutes. That takes no memory from who runs; a real shortage does.
func TestWhatRunsKeepsItsMemory(t *testing.T) {
	l, _, low, _ := crowded(t)
	limit := func() (high int64) {
		l.agent.Ask(time.Minute, func(a *Agent) { high = a.memory.limits[low.Cgroup].High })
		return high
	}
	const amount = 512 << 20
	if said := l.run(60); said.Headroom.MemoryMiB != 0 {
		t.Fatalf("a minute after the start %+v is published", said.Headroom)
	}
	if high := limit(); high != 0 && high < amount {
		t.Errorf("memory.high of a pod that may have %d is %d", amount, high)
	}
	l.counters.free = [2]int{150, 150}
	l.run(60)
	if high := limit(); high == 0 || high >= amount {
		t.Errorf("where memory is short, memory.high of a reclaimed pod is %d", high)
	}
}

// storageKubelet says what pods hold of file systems.
type storageKubelet struct {
	mu    sync.Mutex
	text  string
	asked int
}

func (k *storageKubelet) Read(context.Context) (*storage.Reading, storage.Outcome, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.text == "" {
		return nil, storage.NoAnswer, errors.New("it does not answer")
	}
	r, err := storage.Parse(strings.NewReader(k.text))
	return r, storage.Read, err
}

// holding is a summary of that time: what low and high hold of the one file system, in GiB.
func holding(now time.Time, low, high int) string {
	at := now.UTC().Format(time.RFC3339)
	pod := func(uid string, held int) string {
		return fmt.Sprintf(`{"podRef":{"uid":%q},"ephemeral-storage":{"time":%q,"usedBytes":%d,"inodesUsed":9}}`, uid, at, held<<30)
	}
	fs := fmt.Sprintf(`{"time":%q,"availableBytes":1,"capacityBytes":100}`, at)
	return fmt.Sprintf(`{"node":{"fs":%s,"runtime":{"imageFs":%[1]s}},"pods":[%s,%s]}`, fs, pod("low", low), pod("high", high))
}

// Where the file system of pods gets short, the reclaimed pod that holds most of it has its eviction requested; while nobody says who holds what, nobody is.
func TestReliefOfDisks(t *testing.T) {
	l, _, low, high := crowded(t)
	k := &storageKubelet{}
	l.agent.Ask(time.Minute, func(a *Agent) {
		*a.storage = *kubelet.NewStorage(a.node.Node, k)
		a.node.Pods.Of(low.UID).Priority, a.node.Pods.Of(high.UID).Priority = nil, nil
		a.eviction.disks.read = func() (root, images evict.Disk) {
			return evict.Disk{BytesTotal: advise.Known(100 << 30), Bytes: advise.Known(11 << 30)}, images
		}
	})
	said := l.run(30)
	l.eventually("the kubelet was asked", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.asked == 1 })
	if len(said.Evictions) != 0 {
		t.Fatalf("requested are %+v although nobody knows what they hold", said.Evictions)
	}
	k.mu.Lock()
	k.text = holding(l.now.Add(30*time.Second), 2, 8)
	k.mu.Unlock()
	l.run(31) // the minute is over
	l.eventually("the kubelet has answered", func() (known bool) {
		l.agent.Ask(time.Minute, func(a *Agent) { known = a.storage.Reading() != nil })
		return known
	})
	if said = l.run(2); len(said.Evictions) != 1 || said.Evictions[0].UID != high.UID || said.Evictions[0].Reason != "RootSpace" {
		t.Errorf("requested are %+v, want the pod that holds most", said.Evictions)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked != 2 {
		t.Errorf("the kubelet was asked %d times in a minute", k.asked)
	}
}
