package pack

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// reservable is a node that could be reserved for members of a class.
type reservable struct {
	slot cluster.Slot
	// now and empty are how many members fit now, and when all have left that may have to.
	now, empty int
	domain     string
}

// ReserveNodes chooses the nodes to reserve for a unit that fits nowhere now: as many as hold it once the pods on them have left, those
// first on which the most has left already. open says which nodes may be chosen. Pods of the system's own priorities are taken to stay. ok
// is false when even then the unit would not fit, so that reserving nodes would be in vain.
//
// With a required domain or a uniform label all nodes are of one domain: of those that are large enough, the one with the greatest capacity
// now. Constraints of the pods between one another are not looked at: the placement itself decides.
//
// Example: a gang needs four nodes with 8 free GPUs each. Of ten nodes, two are idle, three have 6 GPUs free and five none. The two idle
// ones are chosen and two of the three; other pods use the rest, or the chosen ones as long as they end in time (backfill).
func ReserveNodes(store *cluster.Store, ask *Ask, open func(cluster.Slot) bool) (slots []cluster.Slot, ok bool) {
	taken := make(map[cluster.Slot]bool)
	domain, pinned := "", false
	if len(ask.Anchors) > 0 && (ask.Topology.Required != "" || ask.Topology.Uniform != "") {
		domain, pinned = RequiredDomain(&store.State, ask.Anchors[0].Slot, &ask.Topology)
	}
	for _, part := range CountByClass(ask) {
		list := reservableNodes(store, part.Class, ask, func(slot cluster.Slot) bool { return !taken[slot] && open(slot) })
		if !pinned {
			if domain, ok = freestDomain(list, part.Count); !ok {
				return nil, false
			}
			pinned = true
		}
		left := part.Count
		for i := range list {
			if left <= 0 {
				break
			}
			if list[i].domain == domain {
				left -= list[i].empty
				taken[list[i].slot] = true
				slots = append(slots, list[i].slot)
			}
		}
		if left > 0 {
			return nil, false
		}
	}
	slices.Sort(slots)
	return slots, len(slots) > 0
}

type classCount struct {
	Class *cluster.Class
	Count int
}

// CountByClass counts the members that must be placed, by class.
func CountByClass(ask *Ask) []classCount {
	var parts []classCount
	for _, pod := range ask.Members[:min(ask.Need, len(ask.Members))] {
		at := slices.IndexFunc(parts, func(p classCount) bool { return p.Class == pod.Class })
		if at < 0 {
			at = len(parts)
			parts = append(parts, classCount{Class: pod.Class})
		}
		parts[at].Count++
	}
	return parts
}

// reservableNodes lists the nodes that could take members of a class, those with the largest free part first.
func reservableNodes(store *cluster.Store, c *cluster.Class, ask *Ask, open func(cluster.Slot) bool) []reservable {
	s := &store.State
	var list []reservable
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil || !open(slot) || !rules.FitsIn(rules.Static, s, slot, c) {
			continue
		}
		k := reservable{slot: slot, now: rules.PodsThatFitWithout(s, slot, c, nil), empty: rules.PodsThatFitWithout(s, slot, c, store.PodsOn(slot))}
		var has bool
		if k.domain, has = RequiredDomain(s, slot, &ask.Topology); has && k.empty > 0 {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b reservable) int {
		return cmp.Or(cmp.Compare(b.now*a.empty, a.now*b.empty), cmp.Compare(b.empty, a.empty), cmp.Compare(a.slot, b.slot))
	})
	return list
}

// RequiredDomain names what all nodes of a unit have in common; ok is false for a node without the labels.
func RequiredDomain(s *cluster.State, slot cluster.Slot, packing *facts.Packing) (domain string, ok bool) {
	var values [2]string
	for i, key := range [...]string{packing.Required, packing.Uniform} {
		if key == "" {
			continue
		}
		if values[i], ok = s.Node(slot).Labels[key]; !ok {
			return "", false
		}
	}
	return values[0] + "\x00" + values[1], true
}

// freestDomain returns the domain with the greatest capacity now, of those that would hold this many members.
func freestDomain(list []reservable, count int) (domain string, ok bool) {
	now, empty := make(map[string]int), make(map[string]int)
	for i := range list {
		now[list[i].domain] += list[i].now
		empty[list[i].domain] += list[i].empty
	}
	best := -1
	for i := range list { // the list's order makes the choice among equals
		if d := list[i].domain; empty[d] >= count && now[d] > best {
			domain, best = d, now[d]
		}
	}
	return domain, best >= 0
}
