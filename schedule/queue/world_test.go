package queue

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// world is a ledger and a queue over it, as the scheduler keeps them.
type world struct {
	store *cluster.Store
	units changes.Revision // the units' changes that it has seen
	q     *Queue
	now   time.Time
}

func newWorld() *world {
	store := cluster.NewStore()
	w := &world{store: store, q: New(store), now: time.Unix(0, 0)}
	w.q.Expire(w.now)
	w.capacity(1000)
	return w
}

// apply lets the ledger see an event and returns what it did to pods.
func (w *world) apply(e facts.Event) []cluster.Effect { return slices.Clone(w.store.Apply(e)) }

// see lets ledger and queue see an event.
func (w *world) see(e facts.Event) {
	effects := w.apply(e)
	for _, effect := range effects {
		w.effect(effect)
	}
	for _, u := range w.store.Units().Changed(&w.units, nil) {
		w.q.Refresh(u)
	}
}

func (w *world) effect(e cluster.Effect) {
	if e.Kind == cluster.Waits {
		w.q.Add(e.Pod)
	} else {
		w.q.Remove(e.Pod.UID)
	}
}

func (w *world) capacity(cpu int64) {
	w.see(facts.NodeUpserted{Node: &facts.Node{Name: "node", Labels: oneRack, Allocatable: []resource.Quantity{
		{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 2000}, {Name: resource.NamePods, Amount: 10_000},
	}}})
}

// requirements are the pods' classes, by how much CPU they ask for.
func requirements(cpu, memory int64) *facts.Requirements {
	return &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: memory}}}
}

// podFacts of a pod of ours that waits.
func podFacts(namespace, name string, cpu int64) facts.Pod {
	return facts.Pod{
		UID: facts.UID(namespace + "/" + name), Namespace: namespace, Name: name, Ours: true, Requirements: requirements(cpu, 1),
	}
}

func (w *world) feed(namespace, queue string) {
	var labels []facts.Label
	if queue != "" {
		labels = []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: queue}}
	}
	w.see(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: namespace, Labels: labels}})
}

// place commits pods to the node, as the binder would.
func (w *world) place(pods []*cluster.Pod) cluster.Verdict {
	plan := &cluster.Plan{Revision: w.store.Revision()}
	for _, pod := range pods {
		plan.Placements = append(plan.Placements, cluster.Placement{Pod: pod.UID, Node: "node"})
	}
	return w.store.Commit(plan, func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" })
}

// verify recounts what the queue keeps and returns the first difference.
func (q *Queue) verify() error {
	count := make(map[string]int)
	seen := make(map[*Unit]bool)
	for uid, u := range q.units {
		if u.gang == nil && u.Pod != uid || u.gang != nil && u.gang.members[uid].uid != uid {
			return fmt.Errorf("pod %s is filed under a unit that does not know it", uid)
		}
		if seen[u] {
			continue
		}
		seen[u] = true
		state, stands := q.stands(u)
		if !stands {
			return fmt.Errorf("unit %s is %s, but not where it says", u.Key(), state)
		}
		count[state]++
	}
	if q.queues.readyUnits != count["active"] || q.queues.parkedUnits != count["parked"] || q.blocks.units != count["blocked by quota"] || q.backoff.Len() != count["backing off"] {
		return fmt.Errorf("counted %d active, %d parked, %d blocked by quota, %d backing off; the units say %v", q.queues.readyUnits, q.queues.parkedUnits, q.blocks.units, q.backoff.Len(), count)
	}
	idle, held := 0, make(map[*Shape]int)
	if err := q.tree.root.verify(&idle, held); err != nil {
		return err
	}
	if idle != q.queues.idle.len || idle > maxIdleShapeQueues {
		return fmt.Errorf("%d shape queues are idle, counted %d", idle, q.queues.idle.len)
	}
	var err error
	q.queues.shapes.each(func(s *Shape) {
		if held[s] != s.shapeQueues || s.shapeQueues == 0 {
			err = fmt.Errorf("shape %v has %d lines, counted %d", s, held[s], s.shapeQueues)
		}
	})
	return err
}

// stands returns how a unit waits, and whether it is found there.
func (q *Queue) stands(u *Unit) (state string, stands bool) {
	switch u.location {
	case inShapeQueue:
		stands = u.shapeQueue.units.At(u.position) == u && !u.shapeQueue.idle
		if u.shapeQueue.parked {
			return "parked", stands
		}
		return "active", stands
	case inQuotaBlock:
		if u.refused {
			return "blocked by quota", u.shapeQueue.blocked.refused[u.position] == u
		}
		return "blocked by quota", u.shapeQueue.blocked.units.At(u.position) == u
	case inBackoff:
		return "backing off", q.backoff.At(u.position) == u && !u.until.IsZero()
	case inGathering:
		return "gathering", q.gathering.units[u.position] == u && u.waiting() < u.need
	default:
		return "popped", true
	}
}

func (n *node) verify(idle *int, held map[*Shape]int) error {
	if n.first != n.head() {
		return fmt.Errorf("node %q does not know its first unit", n.name)
	}
	if n.parent != nil && (n.position >= 0) != (n.first != nil) {
		return fmt.Errorf("node %q: ready and in its parent's heap disagree", n.name)
	}
	var err error
	if n.shapeQueues != nil {
		n.eachShapeQueue(func(sq *ShapeQueue) {
			held[sq.Shape]++
			if sq.idle {
				*idle++
			}
			switch {
			case sq.idle != (sq.units.Len() == 0 && sq.blocked == nil):
				err = fmt.Errorf("a shape queue of %q is idle: %v", n.name, sq.idle)
			case (sq.position >= 0) != (sq.units.Len() > 0 && !sq.parked):
				err = fmt.Errorf("a shape queue of %q: ready and in the heap disagree", n.name)
			case sq.parked && sq.units.Len() == 0:
				err = fmt.Errorf("a shape queue of %q is parked though it is empty", n.name)
			case sq.blocked != nil && sq.blocked.len() == 0:
				err = fmt.Errorf("a shape queue of %q has an empty quota block", n.name)
			case sq.position >= 0 && n.policy.units(sq.units.First(), n.first):
				err = fmt.Errorf("a shape queue of %q comes before the first", n.name)
			}
		})
		return err
	}
	n.eachChild(func(child *node) {
		if e := child.verify(idle, held); e != nil {
			err = e
		} else if child.position >= 0 && n.policy.nodes(child, n.ready.First()) {
			err = fmt.Errorf("node %q comes before the first of %q", child.name, n.name)
		}
	})
	return err
}

// oneRack is the labels of the only node on which pods are placed: whatever packing a unit asks for, it has.
var oneRack = map[string]string{"rack": "r", "zone": "z"}
