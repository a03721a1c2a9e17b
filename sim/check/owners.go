package check

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// Kept is the room of a place that the ledger keeps: which places there are is the ledger's word, what they hold is judged.
type Kept struct {
	UID   facts.UID
	Of    *facts.Reservation
	Node  string
	Grant topology.Grant
}

func (k *Kept) occupant() judge.Occupant {
	return judge.Occupant{Requirements: k.Of.Template.Requirements, Grant: k.Grant}
}

// resident is what constraints between pods know of what is kept.
func (k *Kept) resident(n *facts.Node) *judge.Resident {
	return &judge.Resident{Namespace: k.Of.Namespace, Labels: k.Of.Template.Labels, Requirements: k.Of.Template.Requirements, Node: n}
}

// keptOn lists what is kept on a node, but for some.
func (mi *mirror) keptOn(node string, off ...facts.UID) (list []judge.Occupant) {
	for _, k := range mi.kept() {
		if k.Node == node && !slices.Contains(off, k.UID) {
			list = append(list, k.occupant())
		}
	}
	return list
}

// addKept charges what is kept to queues, but for some.
func (mi *mirror) addKept(used judge.Bill, off []facts.UID) {
	for _, k := range mi.kept() {
		if n := mi.nodes[k.Node]; n != nil && !slices.Contains(off, k.UID) {
			used.Add(mi.tenants, k.Of.Namespace, judge.ChargeOn(n, nil, k.occupant(), true))
		}
	}
}

// places judges where a Plan that was committed has placed placeholders. It returns whether it has.
func (c *Checker) places(plan *cluster.Plan) bool {
	at := slices.IndexFunc(c.mirror.kept(), func(k Kept) bool { return k.UID == plan.Placements[0].Pod })
	if at < 0 {
		return false
	}
	k := c.mirror.kept()[at]
	n := c.mirror.nodes[k.Node]
	if n == nil {
		c.run.Violate("place %s is put on node %s, which the scheduler knows to be gone", k.UID, k.Node)
		return true
	}
	m := &mirrored{uid: k.UID, namespace: k.Of.Namespace, labels: k.Of.Template.Labels, requirements: k.Of.Template.Requirements, priority: k.Of.Template.Priority}
	if why := c.candidate(m, n, k.Grant).refusal(); why != "" {
		c.run.Violate("place %s must not go to node %s: %s", k.UID, n.Name, why)
	}
	if c.run.Tenanted() {
		asks := make(judge.Bill)
		asks.Add(c.mirror.tenants, k.Of.Namespace, judge.ChargeOn(n, nil, k.occupant(), true))
		if why := c.mirror.tenants.Refusal(c.mirror.usage([]facts.UID{k.UID}), asks); why != "" {
			c.run.Violate("place %s: queue %s", k.UID, why)
		}
	}
	return true
}

// OwnersWait looks for pods that wait though they would fit in the room that is kept for them. Members of gangs, which need others, and pods that would cost their queue more than the
// place does, are let pass. OwnersJudged counts the pods that were looked at.
func (c *Checker) OwnersWait(store *cluster.Store) {
	for _, k := range c.mirror.kept() {
		n := c.mirror.nodes[k.Node]
		if n == nil {
			continue
		}
		store.EachWaiting(k.Of.Namespace, func(pod *cluster.Pod) {
			m := c.mirror.pods[pod.UID]
			if m == nil || m.leaving || m.settled || !m.unit.IsZero() || !m.mayWait() || pod.Class.HeldBack != "" || pod.Queue().Refuses || !judge.Owns(k.Of, &facts.Pod{Namespace: m.namespace, Labels: m.labels}) || costsMore(m, &k) {
				return
			}
			c.OwnersJudged++
			if judge.Fits(n, c.mirror.occupants(k.Node, m, k.UID), m.requirements) && c.candidate(m, n, topology.Grant{}, k.UID).neighbours() == "" {
				c.run.Violate("pod %s waits, and would fit on node %s in the place %s, which is kept for it", m.uid, k.Node, k.UID)
			}
		})
	}
}

// costsMore reports whether a pod costs its queue more than a place.
func costsMore(m *mirrored, k *Kept) bool {
	place := judge.Charge(k.Of.Template.Requirements)
	for name, amount := range judge.Charge(m.requirements) {
		if amount > place[name] {
			return true
		}
	}
	return false
}
