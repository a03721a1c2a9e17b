package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"hilbert.dev/hilbert/api/spec"
	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/schedule"
	writes "hilbert.dev/hilbert/schedule/bind"
)

// epoch is when the first pods of a scenario started; the pods that follow a preemption have run longer than those before them, so that
// each next victim is on another node. It is in nanoseconds.
const epoch = int64(1_000_000_000_000_000_000)

// placed is a pod on its node.
type placed struct {
	uid, node string
	class     int
	started   int64
	unit      string // its gang, empty for a single pod
	claim     string // its claim, empty for none
	devices   *resourcev1.AllocationResult
}

// hilbertSide is the whole pipeline of Hilbert: each pod comes as an event, is queued, decided, committed, written out, answered for and
// seen on its node. All of it runs on one goroutine.
type hilbertSide struct {
	scheduler *schedule.Scheduler
	templates []facts.Pod
	preempts  bool
	members   int // of each gang, 0 for single pods

	ring    []placed // the oldest first; members of a gang side by side
	created int
	left    int // preemptors that have left, each for one pod that had to go before
	gang    gangAtHand
	claims  *hilbertClaims // nil: pods have none

	// What the writes about the pod at hand have come to.
	pod       facts.Pod
	preemptor placed
	victims   int
}

// newHilbertSide returns a pipeline that has filled the scenario's cluster, with gangs of so many members or, for 0, with single pods.
func newHilbertSide(s *scenarios.Scenario, members int) (*hilbertSide, error) {
	config := spec.Default().Scheduling
	if s.Case == scenarios.Batch {
		config.DefaultSpread = spec.DefaultSpreadNone
	}
	options := schedule.Options{Config: config}
	if s.Case == scenarios.Devices {
		options.Devices = devices.NewAllocator(context.Background(), devices.MaxTime)
	}
	scheduler, err := schedule.New(options)
	if err != nil {
		return nil, err
	}
	h := &hilbertSide{scheduler: scheduler, preempts: s.Case == scenarios.Preempt, members: members}
	nodes, classes := s.GenerateNodes(), s.GenerateClasses()
	now := time.Now()
	for i := range nodes {
		scheduler.Apply(facts.NodeUpserted{Node: nodes[i].ClusterNode()}, now)
	}
	for i := range classes {
		h.templates = append(h.templates, classes[i].Facts())
		if workload := classes[i].Workload(); workload != nil {
			scheduler.Apply(facts.WorkloadUpserted{Workload: workload}, now)
		}
	}
	if hasClaims(s.Case) {
		h.claims = newHilbertClaims(s.Case, scheduler, nodes, now)
	}
	order := s.Order(nodes, classes)
	if members > 0 {
		return h, h.fillGangs(order, classes)
	}
	for i, class := range order {
		h.place(class, 0, epoch+int64(i*7919%len(order)), "")
	}
	if dropped := len(order) - len(h.ring); dropped > len(order)/10 {
		return nil, fmt.Errorf("%d of %d pods found no node while filling", dropped, len(order))
	}
	return h, nil
}

// place lets a pod come, and reports whether it is on a node in the end. In a case of claims it has the claim of this name, or a new one.
func (h *hilbertSide) place(class int, priority int32, started int64, claim string) bool {
	now := time.Now()
	h.pod = h.templates[class]
	h.pod.UID = scenarios.PodUID(h.created)
	h.pod.Name, h.pod.Created, h.pod.Priority, h.pod.Started = string(h.pod.UID), int64(h.created), priority, started
	h.created++
	if h.claims != nil {
		there := claim != ""
		if !there {
			claim = claimOf(h.created)
		}
		h.claims.come(&h.pod, claim, there, now)
	}
	h.scheduler.Apply(facts.PodUpserted{Pod: h.pod}, now)
	for h.pod.Node == "" && h.scheduler.Step(now, 1) > 0 { // a Step that has looked at many nodes ends before its decision
		h.write(now)
	}
	if h.pod.Node == "" {
		h.scheduler.Apply(facts.PodRemoved{UID: h.pod.UID}, now)
		return false
	}
	on := placed{uid: h.pod.Name, node: h.pod.Node, class: class, started: started, claim: claim}
	if h.claims != nil && h.claims.device != nil {
		on.devices = h.claims.device.Status.Allocation
	}
	if priority > 0 {
		h.preemptor = on
	} else {
		h.ring = append(h.ring, on)
	}
	return true
}

// write carries out what the scheduler wants to be written.
func (h *hilbertSide) write(now time.Time) {
	for ready := h.scheduler.Ready(now); len(ready) > 0; ready = h.scheduler.Ready(now) {
		for i := range ready {
			h.scheduler.Finish(writes.Result{ID: ready[i].ID, Outcome: writes.Written}, now)
			h.see(&ready[i], now)
		}
	}
}

// see is what the watch says after a write.
func (h *hilbertSide) see(w *writes.Write, now time.Time) {
	switch {
	case w.Kind == writes.WriteVolume || w.Kind == writes.WriteClaim:
		h.claims.see(w, now)
	case w.Kind == writes.WriteBinding && w.Pod == h.pod.UID:
		h.pod.Node = w.Node
		h.scheduler.Apply(facts.PodUpserted{Pod: h.pod}, now)
	case w.Kind == writes.WriteNomination && w.Pod == h.pod.UID:
		h.pod.Nominated = w.Node
		h.scheduler.Apply(facts.PodUpserted{Pod: h.pod}, now)
	case w.Kind == writes.DeletePod:
		h.victims++
		h.scheduler.Apply(facts.PodRemoved{UID: w.Pod}, now)
	}
}

// next makes one decision at a level load: the oldest pod leaves and one of its class comes; or the last preemptor leaves, one of low
// priority is on its node again, and the next preemptor comes.
func (h *hilbertSide) next() bool {
	now := time.Now()
	if h.preempts {
		if h.preemptor.uid != "" {
			h.scheduler.Apply(facts.PodRemoved{UID: facts.UID(h.preemptor.uid)}, now)
			h.left++
			seen := h.templates[h.preemptor.class]
			seen.UID = scenarios.PodUID(h.created)
			seen.Name, seen.Created, seen.Node, seen.Started = string(seen.UID), int64(h.created), h.preemptor.node, epoch-int64(h.left)
			h.created++
			h.scheduler.Apply(facts.PodUpserted{Pod: seen}, now)
			h.preemptor = placed{}
		}
		return h.place(0, scenarios.PreemptorPriority, 0, "")
	}
	if h.members > 0 {
		return h.nextGang(now)
	}
	oldest := h.ring[0]
	h.ring = h.ring[1:]
	h.scheduler.Apply(facts.PodRemoved{UID: facts.UID(oldest.uid)}, now)
	if h.claims != nil && !h.claims.keeps() {
		h.claims.leave(oldest.claim, now)
		oldest.claim = ""
	}
	return h.place(oldest.class, 0, 0, oldest.claim)
}

func (h *hilbertSide) decide(ctx context.Context, least int, limit time.Duration) (tally, error) {
	stride := max(16/max(h.members, 1), 1) // decisions between two looks at the clock
	var t tally
	before := h.victims
	end := time.Now().Add(limit)
	for t.decisions < least || time.Now().Before(end) {
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		for range min(stride, max(least, 1)) {
			if len(h.ring) == 0 {
				return t, errors.New("no pod is left that could leave")
			}
			if !h.next() {
				t.unplaced++
			}
			t.decisions++
		}
	}
	t.victims = h.victims - before
	if h.claims != nil {
		return t, h.claims.err
	}
	return t, nil
}

// pods is how many pods hold nodes.
func (h *hilbertSide) pods() int {
	n := 0
	h.scheduler.Store().EachPod(func(pod *cluster.Pod) {
		if pod.Phase == cluster.Bound {
			n++
		}
	})
	return n
}

func (h *hilbertSide) stop() {}
