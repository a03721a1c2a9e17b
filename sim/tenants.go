package sim

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
)

// unit is a PodGroup of the workload, with what the API server's books say of it.
type unit struct {
	age    int32 // how many of its name were before it
	exists bool
	whole  bool  // once, it was: of as many members as it needs all were bound, though some may have been deleted before the last
	bound  int   // members that were bound since there were none on a node
	began  int64 // when it was whole first
	runs   bool  // the same under its present UID, and something of it is left
}

// unitOf is the PodGroup that a pod names; the zero name for none.
func (a *model) unitOf(p *pod) facts.UnitName {
	name := a.w.Tasks[p.task].Unit
	if name == "" {
		return facts.UnitName{}
	}
	return facts.UnitName{Namespace: a.identity(p).Namespace, Name: name}
}

// members are the pods that name a PodGroup, ended ones included.
func (a *model) members(name facts.UnitName) []int32 {
	var list []int32
	for _, i := range a.joined[name] {
		if a.pods[i].exists {
			list = append(list, i)
		}
	}
	return list
}

// has counts the members that are on nodes, and those that have ended.
func (a *model) has(name facts.UnitName) (bound, ended int) {
	for _, i := range a.members(name) {
		switch p := &a.pods[i]; {
		case p.finished:
			ended++
		case p.node != nowhere && !p.deleting:
			bound++
		}
	}
	return bound, ended
}

// sawUnit takes note if a unit is whole, or nothing is left of it.
func (a *model) sawUnit(name facts.UnitName, now int64) {
	f := a.tenants.Units[name]
	if f == nil {
		return
	}
	u := &a.units[a.numberOf(name)]
	bound, ended := a.has(name)
	if bound >= int(f.MinMember) {
		u.runs = true
	}
	if bound+ended == 0 {
		u.runs = false
	}
	if !slices.ContainsFunc(a.members(name), func(i int32) bool { return a.pods[i].node != nowhere }) {
		u.bound = 0
	}
	if !u.whole && max(bound, u.bound) >= int(f.MinMember) {
		u.whole, u.began = true, now
	}
}

// numberOf is where a PodGroup stands in the workload, or nowhere.
func (a *model) numberOf(name facts.UnitName) int {
	if len(a.numbers) != len(a.w.Units) {
		a.numbers = make(map[facts.UnitName]int, len(a.w.Units))
		for i := range a.w.Units {
			a.numbers[a.w.Units[i].Facts.UnitName] = i
		}
	}
	i, ok := a.numbers[name]
	if !ok {
		return nowhere
	}
	return i
}

// reportUnit sets the condition of a PodGroup, if it exists. What was whole once stays so.
func (a *model) reportUnit(name facts.UnitName, c facts.UnitCondition) bool {
	old := a.tenants.Units[name]
	if old == nil {
		return false
	}
	if old.Scheduled && !c.Met {
		return true
	}
	f := *old
	f.Reported, f.Scheduled = c, f.Scheduled || c.Met
	a.tenants.Units[name] = &f
	a.revision++
	return true
}

// createUnit creates a PodGroup of the workload, anew if there was one of its name.
func (s *simulation) createUnit(i int32) {
	u := &s.api.units[i]
	w := &s.w.Units[i]
	if u.exists || w.Deleted != trace.Never && w.Deleted <= s.now && u.age > 0 {
		return
	}
	f := *w.Facts
	f.Created = s.now
	if u.age > 0 {
		f.UID = facts.UID(fmt.Sprintf("%s#%d", f.UID, u.age))
	}
	if bound, _ := s.api.has(f.UnitName); bound == 0 {
		u.whole = false
	}
	u.exists, u.runs = true, false
	s.api.tenants.Units[f.UnitName] = &f
	s.api.revision++
	s.api.sawUnit(f.UnitName, s.now)
	s.tell(watchUnits, facts.UnitUpserted{Unit: &f})
	if w.Deleted != trace.Never && u.age == 0 {
		s.agenda.add(event{at: max(w.Deleted, s.now), kind: evUnitGone, arg: i})
	}
}

// deleteUnit deletes a PodGroup. Its pods stay.
func (s *simulation) deleteUnit(i int32) {
	u := &s.api.units[i]
	if !u.exists {
		return
	}
	name := s.w.Units[i].Facts.UnitName
	u.exists = false
	u.age++
	delete(s.api.tenants.Units, name)
	s.api.revision++
	s.tell(watchUnits, facts.UnitRemoved{Name: name})
}

// setQueue configures a queue.
func (s *simulation) setQueue(f *facts.Queue) {
	edited := *f
	if old := s.api.tenants.Queues[f.Name]; old != nil {
		edited.Generation = old.Generation + 1
	}
	s.api.tenants.Queues[f.Name] = &edited
	s.api.revision++
	s.tell(watchQueues, facts.QueueUpserted{Queue: &edited})
}

func (s *simulation) removeQueue(name string) {
	if s.api.tenants.Queues[name] == nil {
		return
	}
	delete(s.api.tenants.Queues, name)
	s.api.revision++
	s.tell(watchQueues, facts.QueueRemoved{Name: name})
}

// setNamespace gives a namespace labels, sorted by key.
func (s *simulation) setNamespace(n facts.Namespace) {
	s.api.tenants.Namespaces[n.Name] = n.Labels
	s.api.revision++
	s.tell(watchNamespaces, facts.NamespaceUpserted{Namespace: n})
}

// runs lets a pod that was just bound come to its end in time.
func (s *simulation) runs(i int32) {
	if d := s.w.Tasks[s.api.pods[i].task].Runs; d > 0 {
		s.agenda.add(event{at: s.now + d, kind: evFinish, arg: i})
	}
}

// editQueue changes a queue: what it was at first comes back every other time, so that nothing stays broken.
func (s *simulation) editQueue() {
	f := *s.w.Queues[s.faults.IntN(len(s.w.Queues))]
	switch s.faults.IntN(8) {
	case 0: // perhaps itself, or what is below it
		f.Parent = s.w.Queues[s.faults.IntN(len(s.w.Queues))].Name
	case 1:
		f.Parent = "nobody"
	case 2, 3: // perhaps below what it has
		f.Max = scaled(f.Guaranteed, int64(s.faults.IntN(150)))
	}
	if s.faults.IntN(12) == 0 {
		s.removeQueue(f.Name)
		return
	}
	s.setQueue(&f)
}

// scaled is so many percent of each amount.
func scaled(list []resource.Quantity, percent int64) []resource.Quantity {
	list = slices.Clone(list)
	for i := range list {
		list[i].Amount = list[i].Amount / 100 * percent
	}
	return list
}

// flapUnit deletes a PodGroup, which comes back some time later under another UID.
func (s *simulation) flapUnit() {
	start := s.faults.IntN(len(s.api.units))
	for i := range s.api.units {
		at := int32((start + i) % len(s.api.units))
		if s.api.units[at].exists {
			s.deleteUnit(at)
			s.agenda.add(event{at: s.now + s.faults.Int64N(int64(30*time.Second)), kind: evUnit, arg: at})
			return
		}
	}
}

// usage is the bill of what is on the nodes that are there.
func (a *model) usage() judge.Bill {
	b := make(judge.Bill)
	for i := range a.nodes {
		if n := &a.nodes[i]; n.present {
			for _, at := range n.pods {
				p := &a.pods[at]
				b.Add(a.tenants, a.identity(p).Namespace, a.requirements(p))
			}
		}
	}
	return b
}
