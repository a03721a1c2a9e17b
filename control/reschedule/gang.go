package reschedule

import (
	"cmp"
	"fmt"

	"hilbert.dev/hilbert/api/spec"
)

// MaxGang is how many members a gang that is moved has at most: one Reservation keeps their places.
const MaxGang = 256

// Gang moves differ from those of one pod: all places are reserved before the first eviction, all members are evicted in one go, and all places go to the PodGroup. Before the first eviction
// whatever goes wrong gives all places back. After it the others follow, even if a place is lost then: a gang some of whose members are gone does no work where it is, and starts again as a whole.
//
// Example: of a gang of four, two on n1 and two on n2, both nodes change hands. Four places on n3 and n4 are reserved. One of them is lost: nobody is evicted. The next plan finds four
// others, and all four members are evicted.

// GangMove is what a Wanted says beside, of a gang that is moved whole.
type GangMove struct {
	PodGroup string
	// Members are all of its pods, in order. The Wanted has the first.
	Members []Member
	// Nodes are those among which the places are.
	Nodes []string
}

// Member is a pod of a gang that is moved, and the node that it leaves.
type Member struct {
	Pod  string `json:"uid"`
	Name string `json:"name"`
	From string `json:"from"`
}

// Size is how many pods a move evicts.
func (w *Wanted) Size() int {
	if w.Gang == nil {
		return 1
	}
	return len(w.Gang.Members)
}

// Pods are the UIDs of the pods that a move evicts.
func (w *Wanted) Pods() []string {
	if w.Gang == nil {
		return []string{w.Pod}
	}
	list := make([]string, len(w.Gang.Members))
	for i := range w.Gang.Members {
		list[i] = w.Gang.Members[i].Pod
	}
	return list
}

// SeenGang joins what is seen of a gang's pods, and of as many places as its Reservation says that there are. members are what See would say of each by itself: Running, Gone, Evicted, Vetoed, NoMember.
func SeenGang(members []Seen, places []Place, why string) Seen {
	out := Seen{Known: true, Running: true, Gone: true, Evicted: true, Why: why}
	left := 0
	for i := range members {
		s := &members[i]
		if s.Gone || s.Evicted {
			left++
		}
		out.Running = out.Running && s.Running
		out.Gone = out.Gone && s.Gone
		out.Evicted = out.Evicted && (s.Gone || s.Evicted)
		out.Vetoed, out.NoMember = cmp.Or(out.Vetoed, s.Vetoed), cmp.Or(out.NoMember, s.NoMember)
	}
	out.Partly = left > 0 && left < len(members)
	count := make(map[Place]int)
	for _, p := range places {
		count[p]++
	}
	switch used := count[Consumed]; {
	case count[Lost] > 0:
		out.Place, out.Served = Lost, true // a gang that has its turn has it by its own rank
	case count[Absent] > 0 || len(places) < len(members):
		out.Place = Absent
	case count[Asked] > 0:
		out.Place = Asked
	case used == len(places) || used > 0 && left == 0: // by a pod of the gang that was not there before: then the room is not enough
		out.Place = Consumed
	default:
		out.Place = Reserved
	}
	return out
}

// GangRefusal says why a gang may not be moved whole; empty: it may, if it finds a place. pods are all of its members, as a View has them.
func GangRefusal(v *View, pods []int, most int) string {
	if most = min(most, MaxGang); len(pods) > most {
		return fmt.Sprintf("its gang has %d members, and at most %d pods may be moved together", len(pods), most)
	}
	for _, i := range pods {
		p := &v.Pods[i]
		if why := p.fixed(); why != "" {
			return fmt.Sprintf("its gang stays, since %s is a member: %s", p.Name, why)
		}
	}
	return ""
}

// fixed says why a pod cannot be moved at all; empty: it can.
func (p *Pod) fixed() string {
	switch {
	case p.Pinned:
		return "it belongs to its node"
	case p.Consent == spec.ConsentRefused:
		return "its annotations refuse it"
	case p.Consent == spec.ConsentUnreplaced || p.Workload == "":
		return "nobody would make a replacement"
	}
	return ""
}
