package cluster

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
)

// Two watches tell of a member that finishes: one that it is gone, the other that it has finished. Whichever comes first, a gang runs on while something
// of it is left, and a new leader, who sees only what is listed, agrees with the old one.
func TestFinishedMembersCountInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.IntRange(2, 5).Draw(t, "members")
		name := facts.UnitName{Namespace: "ns", Name: "g"}
		unit := facts.UnitUpserted{Unit: &facts.Unit{UnitName: name, UID: "g", MinMember: int32(members)}}
		pod := func(i int) facts.Pod {
			uid := fmt.Sprint("p", i)
			return facts.Pod{UID: facts.UID(uid), Namespace: "ns", Name: uid, Ours: true, Node: "n1", Unit: "g", Requirements: &facts.Requirements{}}
		}
		s := NewStore()
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Labels: map[string]string{}}})
		s.Apply(unit)
		for i := range members {
			s.Apply(facts.PodUpserted{Pod: pod(i)})
		}
		finish := rapid.IntRange(1, members).Draw(t, "finish")
		var first, second, ended, left []facts.Pod
		for i := range members {
			if i >= finish {
				left = append(left, pod(i))
				continue
			}
			end := facts.FinishedMember(pod(i).UID, name, pod(i).Name)
			ended = append(ended, end)
			if rapid.Bool().Draw(t, "finished first") {
				s.Apply(facts.PodUpserted{Pod: end}) // the door drops what the other watch says later
			} else {
				first, second = append(first, end), append(second, end)
			}
		}
		for i := range first {
			s.Apply(facts.PodRemoved{UID: first[i].UID})
		}
		for i := range second {
			s.Apply(facts.PodUpserted{Pod: second[i]})
		}
		leader := NewStore()
		lists := []facts.Event{facts.PodsListed{Pods: left}, facts.FinishedListed{Pods: ended}, unit}
		for _, i := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order of lists") {
			leader.Apply(lists[i])
		}
		for what, store := range map[string]*Store{"the ledger": s, "a new leader's": leader} {
			u := store.Units().Get(name)
			if !u.Running() || u.Partial() || u.Need() != 1 || u.Placed() != members-finish {
				t.Fatalf("%s: %d of %d have finished: running %v, partial %v, needs %d, placed %d",
					what, finish, members, u.Running(), u.Partial(), u.Need(), u.Placed())
			}
			if err := store.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		// A relist of the pods says nothing of those that have finished; their own does.
		s.Apply(facts.PodsListed{Pods: left})
		if s.Pods() != members {
			t.Fatalf("%d pods are known, %d are there", s.Pods(), members)
		}
		s.Apply(facts.FinishedListed{})
		if s.Pods() != len(left) {
			t.Fatalf("%d pods are known, %d are there", s.Pods(), len(left))
		}
	})
}

// TestFinishedMemberCountsOnce: a member that finishes is not bound any more. One of two that ran alone does not make the gang whole.
func TestFinishedMemberCountsOnce(t *testing.T) {
	name := facts.UnitName{Namespace: "ns", Name: "g"}
	s := NewStore()
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1"}})
	s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: name, UID: "g", MinMember: 2}})
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Namespace: "ns", Name: "p", Ours: true, Node: "n1", Unit: "g", Requirements: &facts.Requirements{}}})
	s.Apply(facts.PodUpserted{Pod: facts.FinishedMember("p", name, "p")})
	if u := s.Units().Get(name); u.Running() || u.Need() != 2 {
		t.Errorf("one of two members has run and finished: running %v, needs %d", u.Running(), u.Need())
	}
}
