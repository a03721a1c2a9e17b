package numa

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// otherHilbert is a second hilbertd: the two know of each other's pods only from the API server.
	otherHilbert = "hilbert-2"
	// late is by how much reports are late: nearly as much as their agents allow a write to take.
	late = 8 * time.Second
)

// racing is how often agents write, and when that is too long ago: as often as makes reports old while the test runs, and as a control plane
// beside the test can bear.
func racing(nodes int) (write, refresh, staleAfter time.Duration) {
	refresh = max(5*time.Second, time.Duration(nodes)*20*time.Millisecond)
	return refresh / 5, refresh, max(4*refresh, 3*late)
}

// faults are what goes wrong, by the index of the node: of twenty nodes two never report, one falls silent later, three are late, two lose most
// of their reports, two have less to give than their machine.
func faults(i int) hollow.Fault {
	switch i % 20 {
	case 0, 1:
		return hollow.Fault{Silent: true}
	case 3, 4, 5:
		return hollow.Fault{Delay: late}
	case 6, 7:
		return hollow.Fault{Drop: 3}
	case 8, 9:
		return hollow.Fault{Shrink: 4}
	}
	return hollow.Fault{}
}

// never, later and smaller are nodes of faults.
func never(i int) bool { return i%20 < 2 }
func later(i int) bool { return i%20 == 2 }

func smaller(i int) bool { return i%20 == 8 || i%20 == 9 }

// Reports that are late, lost, old or too small move no promise and break none: what a scheduler has promised it knows itself. A second scheduler
// and somebody who binds past both do; but every pod gets its place in the end, what broke is explained, and nothing is given twice.
func TestRaces(t *testing.T) {
	if testing.Short() {
		t.Skip("reports take their time to become stale")
	}
	write, refresh, staleAfter := racing(*nodesFlag)
	r := &race{bed: newBed(t, *nodesFlag, write, refresh), staleAfter: staleAfter, random: rand.New(rand.NewPCG(3, 4))}
	r.startAgents(faults)
	silent := 0
	for i := range r.names {
		if never(i) {
			silent++
		}
	}
	r.reported(len(r.names) - silent)
	for i, name := range r.names {
		if later(i) {
			r.agents.Agent(name).SetFault(hollow.Fault{Silent: true})
		}
	}
	time.Sleep(staleAfter)
	one := r.hilbertd(spec.DefaultSchedulerName, staleAfter) // it knows the age of what it has never seen from the clocks

	r.believedSmaller()
	promises := *podsFlag / 2
	var restarts sync.WaitGroup
	restarts.Go(r.restartSome)
	r.fill(kinds(promises, r.random), r.placed)
	restarts.Wait()
	for range *churnFlag {
		r.replace(promises/5, r.random, r.placed)
	}
	promises += *churnFlag*(promises/5) + 1
	c := r.counts()
	if c.Kept+c.Moved != uint64(promises) || c.Broken+c.Refused+c.Foreign+c.Forged != 0 {
		t.Errorf("of %d promises: %+v", promises, c)
	}
	t.Logf("with bad reports alone: %+v", c)
	r.movedWhole()
	r.unpromised()
	r.explained(one)
	r.fight(one)
}

// believedSmaller has a pod want a NUMA node for itself on a node whose NUMA nodes are taken for smaller than they are: what it is promised is no whole
// NUMA node there, so the agent gives it others.
func (r *race) believedSmaller() {
	r.t.Helper()
	k := kind{28, spec.NUMAExclusive, 30}
	pod := k.pod(podName(len(r.made)), spec.DefaultSchedulerName)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: r.names[8]}
	r.made = append(r.made, made{kind: k, scheduler: spec.DefaultSchedulerName})
	if _, err := r.client.CoreV1().Pods(namespace).Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.await("it has a place", r.glance(), r.placed)
	if c := r.counts(); c.Moved != 1 || c.Kept+c.Broken != 0 {
		r.t.Errorf("a whole NUMA node that is no whole NUMA node: %+v", c)
	}
}

// movedWhole fails if a promise was moved of any but pods that want NUMA nodes for themselves, and that where NUMA nodes are taken for smaller.
func (r *race) movedWhole() {
	r.t.Helper()
	for i, name := range r.names {
		said, _, ok := r.agents.Agent(name).Look()
		if !ok {
			r.t.Fatalf("the agent of %s does not come round", name)
		}
		for s := range said.Status.Topology {
			for z := range said.Status.Topology[s].Children {
				for _, a := range said.Status.Topology[s].Children[z].Allocations {
					if a.Moved && !(a.Exclusive && smaller(i)) {
						r.t.Errorf("node %s: %s was moved, though nothing stood in its way: %+v", name, a.Name, a)
					}
				}
			}
		}
	}
}

// fight lets others bind at the same time, and then has all faults end.
func (r *race) fight(one *process) {
	r.t.Helper()
	two := r.hilbertd(otherHilbert, r.staleAfter)
	before, pods, foreign := r.counts(), *podsFlag/4, *podsFlag/20
	began := time.Now()
	r.create(kinds(pods, r.random), func(i int) string { return []string{spec.DefaultSchedulerName, otherHilbert}[i%2] })
	r.foreign(foreign)
	r.restartSome()
	r.await("all pods have a place", r.glance(), r.placed)
	r.t.Logf("%d pods of two schedulers and %d foreign ones are placed after %.1f s; %d were evicted and made anew", pods, foreign,
		time.Since(began).Seconds(), r.again)
	r.unpromised()
	for _, name := range r.names {
		r.agents.Agent(name).SetFault(hollow.Fault{})
	}
	v := r.settleRace()
	broken, refused := r.refusals()
	c := r.counts()
	r.t.Logf("promises: kept %d more, moved %d, broken %d (by %d pods, tried again until they were evicted); foreign pods: %d ran, %d were refused; %d pods hold other NUMA nodes than they were promised; %d of %d CPUs are held",
		c.Kept-before.Kept, c.Moved, c.Broken, broken, c.Foreign, refused, v.elsewhere, v.cpus, v.room)
	if c.Forged != 0 || broken != r.again {
		r.t.Errorf("promises: %+v; %d pods were refused, and %d made anew", c, broken, r.again)
	}
	r.tellMetrics(one)
	r.tellMetrics(two)
}

// race is what others do to the cluster meanwhile.
type race struct {
	*bed

	staleAfter time.Duration
	random     *rand.Rand
	again      int // pods that were evicted, and made anew
}

// foreign makes pods and binds them to nodes at random, with no promise.
func (r *race) foreign(n int) {
	r.t.Helper()
	targets := make([]string, n)
	for i := range targets {
		targets[i] = r.names[r.random.IntN(len(r.names))]
	}
	list := kinds(n, r.random)
	err := each(r.t.Context(), n, func(ctx context.Context, i int) error {
		pods := r.client.CoreV1().Pods(namespace)
		pod, err := pods.Create(ctx, list[i].pod(fmt.Sprintf("foreign-%06d", i), foreignScheduler), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: targets[i]},
		}, metav1.CreateOptions{})
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// restartSome kills agents while pods arrive.
func (r *race) restartSome() {
	r.t.Helper()
	var group sync.WaitGroup
	for i := 10; i < len(r.names); i += 20 {
		group.Go(func() {
			if err := r.agents.Agent(r.names[i]).Restart(); err != nil {
				r.t.Error(err)
			}
		})
	}
	group.Wait()
}

// placed makes anew what was evicted, as a controller would, and reports whether all pods run where they were bound.
func (r *race) placed() (bool, string) {
	pods, err := r.client.CoreV1().Pods(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	running := make(map[string]bool)
	for _, name := range r.names {
		for uid := range r.agents.Agent(name).Running() {
			running[string(uid)] = true
		}
	}
	here := make(map[string]bool)
	waits, example := 0, ""
	for i := range pods.Items {
		pod := &pods.Items[i]
		here[pod.Name] = true
		if pod.Spec.SchedulerName == foreignScheduler {
			continue
		}
		if pod.Status.Phase == corev1.PodFailed {
			r.t.Fatalf("pod %s has failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		}
		if !running[string(pod.UID)] {
			waits++
			example = fmt.Sprintf("%s on %q: %s", pod.Name, pod.Spec.NodeName, unschedulable(pod))
		}
	}
	var gone []int
	for i := range r.made {
		if !r.made[i].replaced && !here[podName(i)] {
			gone = append(gone, i)
		}
	}
	r.again += len(gone)
	err = each(r.t.Context(), len(gone), func(ctx context.Context, i int) error {
		m := r.made[gone[i]]
		_, err := r.client.CoreV1().Pods(namespace).Create(ctx, m.kind.pod(podName(gone[i]), m.scheduler), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return waits+len(gone) == 0, fmt.Sprintf("%d wait, %d are gone; %s", waits, len(gone), example)
}

// unpromised fails if a pod was bound to a node that has said nothing.
func (r *race) unpromised() {
	r.t.Helper()
	o := r.objects()
	index := make(map[string]int)
	for i, name := range r.names {
		index[name] = i
	}
	for _, pod := range o.pods {
		if i, bound := index[pod.Spec.NodeName]; bound && pod.Spec.SchedulerName != foreignScheduler && (never(i) || later(i)) {
			r.t.Errorf("pod %s was bound to %s, whose agent is silent", pod.Name, pod.Spec.NodeName)
		}
	}
}

// explained fails unless pods that want silent nodes are told so, and wait.
func (r *race) explained(h *process) {
	r.t.Helper()
	for _, c := range []struct {
		node int
		want string
	}{{0, "no NUMA node report"}, {2, "no fresh NUMA node report"}} {
		pod := kind{4, spec.NUMABound, 4}.pod(fmt.Sprintf("probe-%d", c.node), spec.DefaultSchedulerName)
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: r.names[c.node]}
		made, err := r.client.CoreV1().Pods(namespace).Create(r.t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		var said string
		r.await("it is told why it waits", 200*time.Millisecond, func() (bool, string) {
			if made, err = r.client.CoreV1().Pods(namespace).Get(r.t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
				r.t.Fatal(err)
			}
			said = unschedulable(made)
			return strings.Contains(said, c.want), said + "\n" + h.tail()
		})
		r.t.Logf("%s: %s", pod.Name, said)
		if err := r.delete([]corev1.Pod{*made}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// settleRace waits until everything agrees, but for promises that moved; what is evicted meanwhile is made anew.
func (r *race) settleRace() (v *verdict) {
	r.t.Helper()
	r.await("everything agrees", r.glance(), func() (bool, string) {
		if ok, why := r.placed(); !ok {
			return false, why
		}
		o := r.objects()
		if v = o.judge(true); len(v.wrong) == 0 {
			r.compare(o, v)
		}
		return v.verdict()
	})
	return v
}

// refusals counts the pods whose promise broke, and the foreign ones that found no room. A promise may break only beside a pod that its own
// scheduler had not placed.
func (r *race) refusals() (broken, foreign int) {
	r.t.Helper()
	for _, name := range r.names {
		for _, refusal := range r.agents.Agent(name).Refusals() {
			by := r.schedulerOf(refusal.Pod)
			others := 0
			for _, beside := range refusal.Beside {
				if r.schedulerOf(beside) != by {
					others++
				}
			}
			switch {
			case by == foreignScheduler:
				foreign++
			case !strings.Contains(refusal.Why, spec.ReasonPromiseBroken) || others == 0:
				r.t.Errorf("node %s refused pod %s with %d pods of others beside it: %s", name, refusal.Pod, others, refusal.Why)
			default:
				broken++
			}
		}
	}
	return broken, foreign
}

func (r *race) schedulerOf(pod string) string {
	if i, ok := r.number(pod); ok {
		return r.made[i].scheduler
	}
	return foreignScheduler
}
