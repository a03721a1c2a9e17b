package victims

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// A victim that another Plan claims leaves for that Plan's pod, and the ledger charges that pod to the node already. What the victim holds beyond
// what its claimants ask for is room, and another unit may use it without a victim of its own: it shares the claim.
//
//	room = free + what the victims hold that leave − what their claimants ask for
//
// Example: three pods, one after the other, each need the place of one of three equal pods on a node. The first evicts a. For the second a
// leaves too, so that it needs one more, b, and waits for both; the third waits for all three. Three pods leave.
//
// A unit may share a claim only if it might evict the victim itself, were it not claimed. So the claim holds for each of those that share it: when
// one of them is deleted, placed elsewhere or refused, the victim leaves for the others, and each was entitled to that from the start. A victim that
// ends by itself has left for all of them. When its eviction is refused, all of them lose their places.
//
// Two pods never count on the same room: every claimant is charged, and Commit lifts only the victims that a Plan names.

// shares reports whether the unit may count on the departure of a pod that another Plan claims. It asks what groupOf asks of a pod that is not
// claimed, with the queue as it would be if this pod, or its gang, stayed.
func (gs *victimGroups) shares(pod *cluster.Pod) bool {
	if !pod.Claimed() || pod.Priority >= spec.CriticalPriority || pod.Unit != nil && pod.Unit == gs.unit {
		return false
	}
	p := victimGroup{pod: pod, account: gs.quota.accountOf(pod), highest: pod.Priority, tookBack: pod.TookBack()}
	if !gs.leavesWhole(pod) {
		gs.single[0] = pod
		return gs.store.Placeholders().MayEvict(gs.asker, pod.Node(), gs.single[:]) && gs.mightTake(&p, pod.Charge(), pod.RunningSince(gs.decided))
	}
	g := gs.gangOf(pod.Unit)
	p.gang, p.highest, p.tookBack = g, g.highest, g.tookBack
	return g.leaving != nil && gs.store.Placeholders().MayEvict(gs.asker, pod.Node(), g.leaving) && gs.mightTake(&p, g.holds, g.since)
}

// mightTake reports whether a group that is leaving might be taken if it stayed.
func (gs *victimGroups) mightTake(p *victimGroup, holds resource.List, since int64) bool {
	gs.quota.stays(p.account, holds, 1)
	defer gs.quota.stays(p.account, holds, -1)
	return !gs.protects(p, holds, since) && gs.quota.mayTake(p, holds)
}

// leavesWhole reports whether a pod that is claimed leaves with its whole gang: more of the gang is claimed than it has to spare.
func (gs *victimGroups) leavesWhole(pod *cluster.Pod) bool {
	u := pod.Unit
	return u != nil && u.Atomic() && gs.gangOf(u).claimed > u.Spare()
}

// withGangs adds to pods that leave anyway the others of the gangs that are shared, so that a Plan names all that leave together.
func (gs *victimGroups) withGangs(pods []*cluster.Pod) []*cluster.Pod {
	var named map[*cluster.Pod]bool
	for _, pod := range pods {
		if pod.Deleting || !gs.leavesWhole(pod) {
			continue
		}
		if named == nil {
			named = make(map[*cluster.Pod]bool)
			for _, other := range pods {
				named[other] = true
			}
		}
		for _, member := range gs.gangOf(pod.Unit).leaving {
			if !named[member] {
				named[member] = true
				pods = append(pods, member)
			}
		}
	}
	return pods
}
