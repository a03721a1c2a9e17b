package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/topology"
)

// grantsWorld has a queue that may use 20 CPUs, and pods that ask for one CPU and NUMA nodes of their own. A node has two NUMA nodes of some CPUs.
type grantsWorld struct {
	*schedule.Scheduler
	now time.Time
}

func newGrantsWorld(t *testing.T) *grantsWorld {
	w := &grantsWorld{newSched(t), time.Unix(1000, 0)}
	w.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Weight: 1, Max: rq("cpu", 20000)}}, w.now)
	w.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}}, w.now)
	return w
}

func (w *grantsWorld) node(name string, cpus uint16) {
	w.Apply(facts.NodeUpserted{Node: revNode(name, 2000*int(cpus), 64<<30)}, w.now)
	report := &facts.NodeReport{NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 2, Threads: 2}}
	for z := range 2 {
		report.NUMANodes.NUMANode[z] = topology.NUMACapacity{CPUs: cpus, Memory: 32 << 10}
	}
	w.Apply(facts.NodeReported{Node: name, Report: report}, w.now)
}

func (w *grantsWorld) pod(name, unit string) {
	w.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: facts.UID(name), Namespace: "ns", Name: name, Ours: true, Created: 1, Unit: unit,
		Requirements: &facts.Requirements{Requests: rq("cpu", 1000, "memory", 1<<30), NUMANodes: topology.NUMARequest{CPUs: 1, Memory: 1 << 10, Binding: topology.Exclusive}},
	}}, w.now)
}

func (w *grantsWorld) pump() {
	w.now = w.now.Add(time.Second)
	pump(w.Scheduler, w.now)
}

func (w *grantsWorld) want(t *testing.T, when string, pods int, cpu int64) {
	t.Helper()
	placed := 0
	for _, node := range []string{"n1", "n2", "small"} {
		placed += placedOn(w.Scheduler, node)
	}
	if got := w.Store().Quota().Queue("q").Used(resource.CPU); placed != pods || got != cpu {
		t.Errorf("%s: %d pods have places and %dm are charged, want %d and %dm", when, placed, got, pods, cpu)
	}
	if err := w.Verify(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// The limit admits 20 requests of one CPU, and two grants of 8. The third pod waits for the limit, and costs no decision meanwhile.
func TestLimitsCountGrants(t *testing.T) {
	w := newGrantsWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	for i := range 4 {
		w.pod(fmt.Sprint("p", i), "")
	}
	w.pump()
	w.want(t, "four pods", 2, 16000)
	if n := w.Step(w.now, 100); n != 0 || w.Pending().Quota != 2 {
		t.Errorf("%d more decisions, and %d pods wait for the limit, want 2", n, w.Pending().Quota)
	}
	first := facts.UID("p0")
	if w.Store().Pod(first).Node() == "" {
		first = "p1"
	}
	w.Apply(facts.PodRemoved{UID: first}, w.now)
	if n := w.Step(w.now, 100); n != 1 {
		t.Errorf("%d decisions, want 1: there is room for 12 requests, and for one grant", n)
	}
	w.pump()
	w.want(t, "one has left", 2, 16000)
	for _, node := range []string{"n1", "n2"} { // they are cordoned: only the small node is left
		n := revNode(node, 16000, 64<<30)
		n.Unschedulable = true
		w.Apply(facts.NodeUpserted{Node: n}, w.now)
	}
	w.node("small", 2)
	w.pump()
	w.want(t, "a node of small NUMA nodes has come, which eases no limit", 2, 16000)
	w.Flush()
	w.pump()
	w.want(t, "a minute later", 3, 18000)
}

// A gang that needs two members and has four gets as many as its limit has room for.
func TestGangGetsTheGrantsThatFitItsLimit(t *testing.T) {
	w := newGrantsWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	w.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: "gang"}, MinMember: 2}}, w.now)
	for i := range 4 {
		w.pod(fmt.Sprint("p", i), "gang")
	}
	w.pump()
	w.want(t, "a gang of four", 2, 16000)
}
