package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/kube/write"
	"hilbert.dev/hilbert/resource"
)

// modelQueues takes the statuses of Queues down.
type modelQueues struct {
	names  []string
	latest map[string]write.QueueStatus
	full   bool
	closed bool
}

func (m *modelQueues) Write(_ context.Context, name string, status write.QueueStatus) error {
	if m.full {
		return write.ErrQueuesWaiting
	}
	if m.latest == nil {
		m.latest = make(map[string]write.QueueStatus)
	}
	m.names, m.latest[name] = append(m.names, name), status
	return nil
}

func (m *modelQueues) Close() { m.closed = true }

func cores(n int64) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * n}}
}

// tenants gives the namespace default to a queue that is guaranteed one core of at most three.
func (w *world) tenants() {
	w.apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "team", Generation: 3, Guaranteed: cores(1), Max: cores(3), Weight: 1}})
	w.apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "lost", Generation: 1, Parent: "nobody", Weight: 1}})
	w.apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "default", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "team"}}}})
}

// Only the leader tells Queues what they have, every interval, and all of it each time.
func TestQueuesAreTold(t *testing.T) {
	w := newWorld(t)
	w.list()
	w.tenants()
	w.rounds()
	if len(w.told[0].names) > 0 {
		t.Fatal("a standby tells queues their status")
	}
	w = leader(t)
	m := w.told[0]
	if wake := w.rounds(); len(m.names) > 0 || wake != idlePoll {
		t.Fatalf("without queues %v are told, and it wakes in %v", m.names, wake)
	}
	w.tenants()
	for _, name := range []string{"a", "b", "c", "d"} {
		w.apply(facts.PodUpserted{Pod: pod(name, "")})
	}
	w.rounds()
	if got := fmt.Sprint(m.names); got != "[lost team]" {
		t.Fatalf("told %s", got)
	}
	w.clock = w.clock.Add(queueStatusInterval - time.Second)
	if wake := w.rounds(); len(m.names) != 2 || wake != time.Second {
		t.Fatalf("told %v before it is time; it wakes in %v", m.names, wake)
	}
	w.clock = w.clock.Add(time.Second)
	w.rounds()
	if len(m.names) != 4 {
		t.Fatalf("told %v", m.names)
	}
	team, lost := m.latest["team"], m.latest["lost"]
	if team.Generation != 3 || team.Refuses || team.Problem.Reason != "" || team.PendingUnits != 1 || team.PendingPods != 1 || team.RunningPods != 3 ||
		amount(team.Used) != 3000 || amount(team.Borrowed) != 2000 || amount(team.FairShare) != 3000 {
		t.Errorf("team: %+v", team)
	}
	if !lost.Refuses || lost.Problem.Reason != spec.ReasonQueueParentMissing || !strings.Contains(lost.Problem.Message, "nobody") {
		t.Errorf("lost: %+v", lost)
	}
	w.open = false
	w.clock = w.clock.Add(time.Minute)
	if w.rounds(); len(m.names) != 4 {
		t.Error("told behind a shut fence")
	}
}

func amount(list []resource.Quantity) int64 {
	for _, q := range list {
		if q.Name == resource.NameCPU {
			return q.Amount
		}
	}
	return 0
}

// With more queues than are told at once, each has its turn; one that cannot be told now is told later.
func TestManyQueuesTakeTurns(t *testing.T) {
	w := leader(t)
	m := w.told[0]
	const queues = queueStatusesPerRound + 5
	for i := range queues {
		w.apply(facts.QueueUpserted{Queue: &facts.Queue{Name: fmt.Sprintf("q%05d", i), Weight: 1}})
	}
	for round, want := range []int{queueStatusesPerRound, 2 * queueStatusesPerRound} {
		if w.rounds(); len(m.names) != want {
			t.Fatalf("round %d: told %d", round, len(m.names))
		}
		w.clock = w.clock.Add(queueStatusInterval)
	}
	if len(m.latest) != queues {
		t.Errorf("%d of %d were told", len(m.latest), queues)
	}
	m.full = true
	if wake := w.rounds(); wake != queueStatusInterval {
		t.Errorf("it wakes in %v", wake)
	}
}

// scrape asks for the metrics, with the loop's goroutine in the place of which the test answers.
func (w *world) scrape() string {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case question := <-w.asks:
				question()
			case <-done:
				return
			}
		}
	}()
	r := httptest.NewRecorder()
	promhttp.HandlerFor(w.meter.registry, promhttp.HandlerOpts{}).ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	close(done)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body)
}

func (w *world) expectMetrics(when string, lines ...string) {
	w.t.Helper()
	metrics := w.scrape()
	for _, line := range lines {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			w.t.Errorf("%s: /metrics lacks %q", when, line)
		}
	}
}

func member(name, unit string) facts.Pod {
	p := pod(name, "")
	p.Unit = unit
	return p
}

func TestQueueAndUnitMetrics(t *testing.T) {
	w := leader(t)
	w.meter.registry.MustRegister(w.loop)
	if strings.Contains(w.scrape(), "hilbert_queue_used") {
		t.Error("there are no queues, but metrics of them")
	}
	w.tenants()
	w.apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: "g"}, UID: "g", MinMember: 2}})
	w.apply(facts.PodUpserted{Pod: member("g-0", "g")})
	w.apply(facts.PodUpserted{Pod: pod("large", "")})
	large := pod("huge", "")
	large.Requirements = &facts.Requirements{Requests: cores(9)}
	w.apply(facts.PodUpserted{Pod: large})
	w.rounds()
	w.expectMetrics("a member is missing",
		`hilbert_pending_pods{queue="gathering"} 1`, `hilbert_pending_pods{queue="quota"} 1`, `hilbert_pending_pods{queue="unschedulable"} 0`,
		`hilbert_units{state="gathering"} 1`, `hilbert_units{state="running"} 0`, `hilbert_reserved_nodes 0`,
		`hilbert_queue_used{queue="team",resource="cpu"} 1`, `hilbert_queue_guaranteed{queue="team",resource="cpu"} 1`,
		`hilbert_queue_limit{queue="team",resource="cpu"} 3`, `hilbert_queue_borrowed{queue="team",resource="cpu"} 0`,
		`hilbert_queue_fair_share{queue="team",resource="cpu"} 3`, `hilbert_queue_pending_units{queue="team"} 2`,
		`hilbert_queue_pending_pods{queue="team"} 2`, `hilbert_queue_ready{queue="team"} 1`, `hilbert_queue_ready{queue="lost"} 0`,
		`hilbert_unit_placement_duration_seconds_count 0`)
	w.clock = w.clock.Add(3 * time.Second)
	w.apply(facts.PodUpserted{Pod: member("g-1", "g")})
	w.rounds()
	w.expectMetrics("it is whole", `hilbert_pending_pods{queue="gathering"} 0`, `hilbert_bindings_in_flight 3`,
		`hilbert_queue_used{queue="team",resource="cpu"} 3`, `hilbert_queue_borrowed{queue="team",resource="cpu"} 2`,
		`hilbert_unit_placement_duration_seconds_count 1`, `hilbert_unit_placement_duration_seconds_sum 3`)
	bound := member("g-0", "g")
	bound.Node = "n1"
	w.apply(facts.PodUpserted{Pod: bound})
	bound = member("g-1", "g")
	bound.Node = "n1"
	w.apply(facts.PodUpserted{Pod: bound})
	w.apply(facts.PodRemoved{UID: "g-0"})
	w.apply(facts.PodUpserted{Pod: member("g-2", "g")}) // one that joins starts nothing
	w.rounds()
	w.expectMetrics("it runs", `hilbert_units{state="running"} 1`, `hilbert_unit_placement_duration_seconds_count 1`)
	w.scheduler.Store().Reserve([]cluster.Slot{0}, 1)
	w.expectMetrics("a node is kept free", `hilbert_reserved_nodes 1`)
}

// The clock of a gang that is deleted before it starts is forgotten in the end.
func TestGangClockForgets(t *testing.T) {
	store := cluster.NewStore()
	c := gangClock{store: store, seen: make(map[facts.UnitName]time.Time)}
	for i := range 3 * minSweep {
		f := member("p", fmt.Sprint("g", i))
		store.Apply(facts.PodUpserted{Pod: f})
		c.waits(facts.UnitName{Namespace: f.Namespace, Name: f.Unit}, time.Unix(0, 0))
		store.Apply(facts.PodRemoved{UID: f.UID})
	}
	if len(c.seen) > minSweep {
		t.Errorf("%d are remembered", len(c.seen))
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// A gang and a queue on the way through a whole daemon: the gang starts when its last member comes, the Queue is told what it has, and those
// who ask are told why another gang waits.
func TestDaemonWithUnitsAndQueues(t *testing.T) {
	s := standin.New(t)
	s.User("viewer", "ada", "get podgroupexplanations.visibility.hilbert.dev", "get queuereports.visibility.hilbert.dev", "list queuereports.visibility.hilbert.dev")
	s.Offer("podgroups.scheduling.k8s.io", "v1beta1")
	s.Offer("queues.scheduling.hilbert.dev", "v1alpha1")
	s.SetNode(apiNode("8"))
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{spec.LabelQueue: "team"}}})
	s.Set(object(t, `{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Queue, metadata: {name: team, uid: q, generation: 2}, spec: {guaranteed: {cpu: 2}, max: {cpu: 4}}}`))
	for _, name := range []string{"first", "second"} {
		s.Set(object(t, `{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {namespace: default, name: `+name+`, uid: `+name+`}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}`))
	}
	add := func(unit string, number int) {
		p := apiPod(fmt.Sprint(unit, "-", number), "1")
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &unit}
		s.SetPod(p)
	}
	add("first", 0)
	add("first", 1)
	p := start(t, s, quickConfig())
	unit := func(name string) string {
		_, body := p.Fetch(t, visibleRoot+"/namespaces/default/podgroupexplanations/"+name, "viewer")
		return body
	}
	endpointstest.Eventually(t, "the gang gathers", func() bool { return strings.Contains(unit("first"), `"missing": 1`) })
	if bound(s) != 0 {
		t.Error("half a gang is bound")
	}
	add("first", 2)
	endpointstest.Eventually(t, "the gang is bound", func() bool { return bound(s) == 3 })
	for i := range 3 {
		add("second", i)
	}
	endpointstest.Eventually(t, "the other waits for quota", func() bool { return strings.Contains(unit("second"), `"kind": "quota"`) })
	if body := unit("second"); !strings.Contains(body, `"more": 2000`) || !strings.Contains(body, `"gone": "default/first"`) {
		t.Errorf("what would help is not told: %s", body)
	}
	if code, body := p.Fetch(t, visibleRoot+"/namespaces/default/podgroupexplanations/third", "viewer"); code != 404 || !strings.Contains(body, "default/third") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := p.Fetch(t, visibleRoot+"/queuereports/nobody", "viewer"); code != 404 || !strings.Contains(body, "nobody") {
		t.Errorf("%d %s", code, body)
	}
	if _, body := p.Fetch(t, visibleRoot+"/queuereports/team", "viewer"); !strings.Contains(body, `"name": "team"`) || !strings.Contains(body, `"quota": 3`) {
		t.Errorf("/v1/queue: %s", body)
	}
	endpointstest.Eventually(t, "the Queue is told", func() bool {
		status, _, _ := unstructured.NestedMap(s.Stored("queues.scheduling.hilbert.dev", "", "team").Object, "status")
		conditions, _, _ := unstructured.NestedSlice(status, "conditions")
		return fmt.Sprint(status["observedGeneration"]) == "2" && len(conditions) == 1
	})
	endpointstest.Eventually(t, "writes to Queues and PodGroups are counted", func() bool {
		_, metrics := p.Get(t, "/metrics")
		return strings.Contains(metrics, `hilbert_queue_status_writes_total{outcome="written"}`) &&
			strings.Contains(metrics, `hilbert_unit_condition_writes_total{outcome="written"}`)
	})
	p.Stop(t)
}
