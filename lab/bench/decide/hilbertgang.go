package decide

import (
	"fmt"
	"time"

	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/cluster/facts"
	writes "hilbert.dev/hilbert/schedule/bind"
)

// gangAtHand is the gang that was last let come: its PodGroup and its pods as the watch last said.
type gangAtHand struct {
	facts facts.Unit
	pods  []facts.Pod
	at    map[facts.UID]int // in pods
}

// gangName names the gang whose first pod is the created-th.
func gangName(created int) string { return fmt.Sprintf("gang-%07d", created) }

// fillGangs fills the cluster with gangs that hold as much as the pods of the order would.
func (h *hilbertSide) fillGangs(order []int, classes []scenarios.Class) error {
	var held, target int64
	for _, class := range order {
		target += classes[class].CPU
	}
	gangs := 0
	for ; held < target; gangs++ {
		class := order[gangs%len(order)]
		held += classes[class].CPU * int64(h.members)
		h.placeGang(class)
	}
	if got := len(h.ring) / h.members; got == 0 || gangs-got > gangs/10+1 {
		return fmt.Errorf("%d of %d gangs of %d found places while filling: give more --nodes", got, gangs, h.members)
	}
	return nil
}

// placeGang lets a gang come, and reports whether all of it is on nodes in the end.
func (h *hilbertSide) placeGang(class int) bool {
	now := time.Now()
	g := h.newGang(class)
	h.scheduler.Apply(facts.UnitUpserted{Unit: &g.facts}, now)
	for i := range g.pods {
		h.scheduler.Apply(facts.PodUpserted{Pod: g.pods[i]}, now)
	}
	h.scheduler.Step(now, 1)
	for ready := h.scheduler.Ready(now); len(ready) > 0; ready = h.scheduler.Ready(now) {
		for i := range ready {
			h.scheduler.Finish(writes.Result{ID: ready[i].ID, Outcome: writes.Written}, now)
			h.seeGang(&ready[i], now)
		}
	}
	bound := 0
	for i := range g.pods {
		if p := &g.pods[i]; p.Node != "" {
			bound++
			h.ring = append(h.ring, placed{uid: p.Name, node: p.Node, class: class, unit: p.Unit})
		}
	}
	if bound == len(g.pods) {
		return true
	}
	h.ring = h.ring[:len(h.ring)-bound]
	for i := range g.pods {
		h.scheduler.Apply(facts.PodRemoved{UID: g.pods[i].UID}, now)
	}
	h.scheduler.Apply(facts.UnitRemoved{Name: g.facts.UnitName}, now)
	return false
}

func (h *hilbertSide) newGang(class int) *gangAtHand {
	name := gangName(h.created)
	g := &h.gang
	g.facts = facts.Unit{
		UnitName: facts.UnitName{Namespace: scenarios.Namespace, Name: name}, UID: facts.UID(name), Created: int64(h.created),
		MinMember: int32(h.members),
	}
	g.pods, g.at = g.pods[:0], make(map[facts.UID]int, h.members)
	for i := range h.members {
		pod := h.templates[class]
		pod.UID = scenarios.PodUID(h.created)
		pod.Name, pod.Created, pod.Unit = string(pod.UID), int64(h.created), name
		h.created++
		g.at[pod.UID] = i
		g.pods = append(g.pods, pod)
	}
	return g
}

// seeGang is what the watch says after a write.
func (h *hilbertSide) seeGang(w *writes.Write, now time.Time) {
	switch w.Kind {
	case writes.WriteBinding:
		if i, ok := h.gang.at[w.Pod]; ok {
			h.gang.pods[i].Node = w.Node
			h.scheduler.Apply(facts.PodUpserted{Pod: h.gang.pods[i]}, now)
		}
	case writes.WriteUnitCondition:
		if w.Unit == h.gang.facts.UnitName {
			seen := h.gang.facts // what was applied is immutable
			seen.Reported, seen.Scheduled = w.UnitCondition, w.UnitCondition.Met
			h.scheduler.Apply(facts.UnitUpserted{Unit: &seen}, now)
		}
	}
}

// nextGang lets the oldest gang leave and one of its class come.
func (h *hilbertSide) nextGang(now time.Time) bool {
	oldest := h.ring[:h.members]
	h.ring = h.ring[h.members:]
	for i := range oldest {
		h.scheduler.Apply(facts.PodRemoved{UID: facts.UID(oldest[i].uid)}, now)
	}
	h.scheduler.Apply(facts.UnitRemoved{Name: facts.UnitName{Namespace: scenarios.Namespace, Name: oldest[0].unit}}, now)
	return h.placeGang(oldest[0].class)
}
