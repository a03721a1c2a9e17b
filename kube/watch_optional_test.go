package kube

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/kube/write"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// its agent vouches for it far in the future, by its clock, so that it is never stale
	reportText = `{apiVersion: node.hilbert.dev/v1alpha1, kind: CustomNodeResource, metadata: {name: n1, uid: u}, status: {observedAt: "2126-11-21T00:00:00Z",
  mode: agent, threadsPerCore: 1, topology: [{type: Socket, name: "0", children: [
    {type: NUMA, name: "0", capacity: {cpus: 4, memoryMiB: 1024}, allocatable: {cpus: 3, memoryMiB: 512}, allocations: [{namespace: a, name: p, uid: p, cpus: 2, memoryMiB: 64}]}]}]}}`
)

// offers is, for each API that may be missing, an object, a change that nobody is told of, one that is, and what is told.
var offers = []struct {
	resource, version, text string
	silent, change          func(*unstructured.Unstructured) *unstructured.Unstructured
	listed, told, gone      string
}{
	{
		standin.PodGroups, "v1beta1", standin.PodGroupText, heartbeat, minCount,
		"unit ml/g min 3", "unit ml/g min 4", "unit ml/g gone",
	},
	{
		standin.PodGroups, "v1alpha3", strings.Replace(standin.PodGroupText, "v1beta1", "v1alpha3", 1), heartbeat, minCount,
		"unit ml/g min 3", "unit ml/g min 4", "unit ml/g gone",
	},
	{
		standin.PodGroups, "v1alpha2", strings.Replace(standin.PodGroupText, "v1beta1", "v1alpha2", 1), heartbeat, minCount,
		"unit ml/g min 3", "unit ml/g min 4", "unit ml/g gone",
	},
	{
		standin.SigsPodGroups, "v1alpha1", standin.SigsPodGroupText,
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, int64(2), "status", "running")
		},
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, int64(4), "spec", "minMember")
		},
		"unit ml/g min 3", "unit ml/g min 4", "unit ml/g gone",
	},
	{
		standin.Queues, "v1alpha1", standin.QueueText,
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, int64(2), "status", "pendingPods")
		},
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, int64(4), "spec", "weight")
		},
		`queue q below "" weight 2`, `queue q below "" weight 4`, "queue q gone",
	},
	{
		standin.NodeReports, "v1alpha1", reportText,
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, []any{map[string]any{"name": "share", "cpuset": "0", "pods": int64(1)}}, "status", "pools")
		},
		func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return standin.With(u, "kubelet", "status", "mode")
		},
		"report n1 agent 3/512 [{p 0:2/64Mi}]", "report n1 kubelet 3/512 []", "report n1 gone",
	},
}

func heartbeat(u *unstructured.Unstructured) *unstructured.Unstructured {
	return standin.With(u, []any{map[string]any{"type": "DisruptionTarget", "status": "False", "lastTransitionTime": "2026-11-21T00:00:00Z"}}, "status", "conditions")
}

func minCount(u *unstructured.Unstructured) *unstructured.Unstructured {
	return standin.With(u, int64(4), "spec", "schedulingPolicy", "gang", "minCount")
}

func TestWatchOfOptionalAPIs(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		for _, c := range offers {
			t.Run(fmt.Sprintf("%s/%s streamed=%v", c.resource, c.version, streamed), func(t *testing.T) {
				s := standin.New(t)
				if !streamed {
					s.WithoutStreaming()
				}
				s.Offer(c.resource, c.version)
				first := standin.FromYAML(t, c.text)
				s.Set(first)
				w := startWatch(t, s, quiet)
				for line := ""; line != c.listed; line = next(t, w) {
					if strings.HasPrefix(line, "unit") || strings.HasPrefix(line, "queue") || strings.HasPrefix(line, "report") {
						t.Fatalf("got %q, want %q", line, c.listed)
					}
				}
				s.Set(c.silent(first))
				changed := c.change(first)
				s.Set(changed)
				expectOptional(t, w, c.told)
				s.Delete(changed)
				s.Set(first)
				expectOptional(t, w, c.gone, c.listed)
			})
		}
	}
}

// expectOptional expects lines beside those about nodes and pods.
func expectOptional(t *testing.T, w *Watch, want ...string) {
	t.Helper()
	for _, line := range want {
		got := next(t, w)
		for strings.HasPrefix(got, "nodes ") || strings.HasPrefix(got, "pods ") {
			got = next(t, w)
		}
		if got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
}

// collector keeps what is told.
type collector struct {
	mu    sync.Mutex
	lines []string
}

func (c *collector) send(e facts.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := describeOther(e)
	switch e.(type) {
	case facts.UnitsListed:
		line = "units: " + line
	case facts.QueuesListed:
		line = "queues: " + line
	}
	c.lines = append(c.lines, line)
	return nil
}

// take returns what was told since, of units or of queues.
func (c *collector) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.lines, "; ")
	c.lines = nil
	return out
}

func TestUnitBook(t *testing.T) {
	told := &collector{}
	book := newUnitBook(told, nil)
	unit := func(name string, members int32) *facts.Unit {
		return &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: name}, MinMember: members}
	}
	list := func(api int, units ...*facts.Unit) func() {
		return func() { _ = book.page(api).send(facts.UnitsListed{Units: units}) }
	}
	upsert := func(api int, u *facts.Unit) func() {
		return func() { _ = book.page(api).send(facts.UnitUpserted{Unit: u}) }
	}
	remove := func(api int, name string) func() {
		return func() { _ = book.page(api).send(facts.UnitRemoved{Name: unit(name, 0).UnitName}) }
	}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{list(1, unit("a", 1), unit("b", 2)), ""},
		{upsert(1, unit("c", 3)), ""},
		{list(0, unit("b", 9)), "units: unit ns/a min 1; unit ns/b min 9; unit ns/c min 3"},
		{upsert(1, unit("b", 5)), ""},
		{upsert(1, unit("c", 4)), "unit ns/c min 4"},
		{upsert(0, unit("c", 7)), "unit ns/c min 7"},
		{remove(1, "c"), ""},
		{remove(0, "c"), "unit ns/c gone"},
		{remove(0, "b"), "unit ns/b min 5"},
		{remove(1, "b"), "unit ns/b gone"},
		{remove(1, "b"), ""},
		{list(0), "units: unit ns/a min 1"},
		{list(1), "units: "},
	} {
		step.do()
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
}

// runOptionals surveys a server every few milliseconds.
func runOptionals(t *testing.T, s *standin.Server) *Watch {
	t.Helper()
	events := make(chan facts.Event, MaxQueuedEvents)
	ctx, cancel := context.WithCancel(apiserver.Silence(t.Context()))
	own := apiserver.ForPurpose(s.Connection(), "test", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOptionals(own, shared, outlet{ctx, events}, func() *parse.Parser { return parse.NewParser("hilbert", nil) }, quiet)
	if err != nil {
		t.Fatal(err)
	}
	o.period = 5 * time.Millisecond
	w := &Watch{events: events, stop: cancel}
	w.running.Go(func() { o.run(ctx) })
	t.Cleanup(w.Stop)
	return w
}

// An API that comes later is noticed, one that changes its version is followed, and one that goes is like an empty one.
func TestOptionalAPIsComeAndGo(t *testing.T) {
	s := standin.New(t)
	w := runOptionals(t, s)
	for range 3 { // empty ones of units, queues and reports
		<-w.Events()
	}
	s.Offer(standin.Queues, "v1alpha1")
	s.Set(standin.FromYAML(t, standin.QueueText))
	expectOptional(t, w, `queue q below "" weight 2`)
	s.Offer(standin.SigsPodGroups, "v1alpha1")
	s.Set(standin.FromYAML(t, standin.SigsPodGroupText))
	expectOptional(t, w, "unit ml/g min 3")
	s.Offer(standin.PodGroups, "v1alpha2")
	s.Set(standin.With(standin.FromYAML(t, strings.Replace(standin.PodGroupText, "v1beta1", "v1alpha2", 1)), int64(5), "spec", "schedulingPolicy", "gang", "minCount"))
	expectOptional(t, w, "unit ml/g min 5")
	s.Offer(standin.PodGroups, "")
	expectOptional(t, w, "unit ml/g min 3")
	s.Offer(standin.Queues, "")
	for {
		if e, ok := (<-w.Events()).(facts.QueuesListed); ok && len(e.Queues) == 0 {
			break
		}
	}
}

// What cannot be asked is not taken for missing: nothing is told before the API server has answered.
func TestSurveyThatFailsSaysNothing(t *testing.T) {
	s := standin.New(t)
	s.Offer(standin.Queues, "v1alpha1")
	s.Set(standin.FromYAML(t, standin.QueueText))
	var refused sync.WaitGroup
	refused.Add(2)
	var times int
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/apis/scheduling.hilbert.dev/v1alpha1" || times >= 2 {
			return false
		}
		times++
		refused.Done()
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	})
	w := runOptionals(t, s)
	refused.Wait()
	expectOptional(t, w, `queue q below "" weight 2`)
}

// What the door asks about PodGroups, Queues and CustomNodeResources is what OptionalPermissions lists.
func TestOptionalPermissionsAreWhatIsAsked(t *testing.T) {
	server := standin.New(t)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	writer, err := write.New(t.Context(), server.Connection(), fence, write.Options{Workers: 1, Timeout: time.Minute, SchedulerName: "hilbert-test"})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	do := func(w bind.Write) bind.Outcome {
		if !writer.Start(w) {
			t.Fatal("not started")
		}
		return (<-writer.Results()).Outcome
	}
	expect := func(w bind.Write) {
		t.Helper()
		if got := do(w); got != bind.Written {
			t.Errorf("write %d: %v", w.Kind, got)
		}
	}
	for _, c := range offers {
		if c.version == "v1beta1" || c.resource != standin.PodGroups {
			server.Offer(c.resource, c.version)
			server.Set(standin.FromYAML(t, c.text))
		}
	}
	for _, resource := range parse.DRAResources {
		server.Offer(resource+"."+parse.GroupResource, "v1")
	}
	server.Set(standin.FromYAML(t, "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: default, name: c, uid: u}}"))
	server.Offer("reservations.scheduling.hilbert.dev", "v1alpha1")
	server.Offer("priorityclasses.scheduling.k8s.io", "v1")
	server.Set(standin.FromYAML(t, "{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Reservation, metadata: {namespace: default, name: r, uid: u}}"))
	w := startWatch(t, server, quiet)
	for lists := (Lists{}); !lists.Complete(); lists.Note(<-w.Events()) {
	}
	claim := facts.ClaimName{Namespace: "default", Name: "c"}
	for _, o := range []dra.Obligation{
		{Claim: claim, Create: true, Requests: facts.ClaimRequests{Spec: &resourcev1.DeviceClaim{}}},
		{Claim: claim, ClaimUID: "u", Protect: true},
		{Claim: claim, ClaimUID: "u", Allocation: "{}"},
	} {
		do(bind.Write{Kind: bind.WriteClaim, Name: "p", Pod: "uid-p", Claim: o}) // the stand-in has no such patches: only that it is asked matters
	}
	g := facts.UnitName{Namespace: "ml", Name: "g"}
	condition := bind.Write{Kind: bind.WriteUnitCondition, Namespace: g.Namespace, Name: g.Name, Unit: g, UnitUID: "u", UnitCondition: facts.UnitCondition{Met: true, Reason: "R", Message: "M"}}
	expect(condition)
	server.Delete(standin.FromYAML(t, standin.PodGroupText))
	condition.UnitUID = "s"
	expect(condition) // now in the sigs' API
	answered := make(chan bind.Outcome, 1)
	q, err := write.NewQueueWriter(t.Context(), server.Connection(), fence, time.Minute, func(o bind.Outcome) { answered <- o })
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Write(t.Context(), "q", write.QueueStatus{UID: "u"}); err != nil || <-answered != bind.Written {
		t.Fatal("not written", err)
	}
	server.SetPod(standin.Pod("p", "n1"))
	expect(bind.Write{Kind: bind.EvictPod, Pod: "uid-p", Namespace: "default", Name: "p", Node: "n1"})
	expect(bind.Write{Kind: bind.WriteEvent, Pod: "uid-p", Namespace: "default", Name: "p", Condition: facts.Condition{Reason: "R", Message: "M"}})
	for i, known := range []bool{false, true} {
		expect(bind.Write{Kind: bind.WriteNodeEvent, Node: "n1", Pod: "uid-p", Namespace: "default", Name: "p", Condition: facts.Condition{Reason: "R", Message: "M"}, Series: bind.Series{Count: int32(i + 1), First: 1, Last: 2}, Known: known})
	}
	do(bind.Write{Kind: bind.WriteReservation, Namespace: "default", Name: "r", Reservation: &cluster.ReservationView{UID: "u", Namespace: "default", Name: "r"}})
	server.Set(standin.FromYAML(t, "{apiVersion: node.hilbert.dev/v1alpha1, kind: CustomNodeResource, metadata: {name: n1}}"))
	expect(bind.Write{Kind: bind.WriteRefusals, Node: "n1"})
	allowed := make(map[string]bool)
	for _, permission := range OptionalPermissions {
		for _, verb := range permission.Verbs {
			allowed[verb+" "+permission.Group+"/"+permission.Resource] = true
		}
	}
	delete(allowed, "patch resource.k8s.io/resourceclaims/binding") // the API server asks for it when the status is written
	always := make(map[string]bool)
	for _, permission := range Permissions {
		for _, verb := range permission.Verbs {
			always[verb+" "+permission.Group+"/"+permission.Resource] = true
		}
	}
	asked := make(map[string]bool)
	for _, a := range server.Asked() {
		if always[a] {
			continue
		}
		if strings.Contains(a, "podgroups") || strings.Contains(a, "queues") || strings.Contains(a, "customnoderesources") ||
			strings.Contains(a, "reservations") || strings.Contains(a, "priorityclasses") ||
			strings.Contains(a, "resource.k8s.io") || strings.Contains(a, "eviction") || strings.Contains(a, "events") {
			asked[a] = true
		}
	}
	if !maps.Equal(asked, allowed) {
		t.Errorf("asked   %v\nallowed %v", asked, allowed)
	}
}
