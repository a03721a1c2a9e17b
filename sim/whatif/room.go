package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxRoomDomains bounds how many domains of a topology are searched for a gang, the most promising first.
	maxRoomDomains = 8
	// maxTogether is for how many members room is made on one node at once.
	maxTogether = 8
	// manyMoves is the estimate of a domain in which a gang cannot have room at all.
	manyMoves = 1 << 20
)

// waitingUnit is a gang none of whose members has a place: all of them, as many as must have one together, and what it asks of the topology.
type waitingUnit struct {
	all, members        []*facts.Pod
	topology, subgroups facts.Packing
}

// waitingUnits are the gangs none of whose members has a place though enough of them wait, by namespace and name.
func waitingUnits(l *cluster.Dump) map[string]*waitingUnit {
	units := make(map[string]*waitingUnit)
	placed := make(map[string]bool)
	for i := range l.Pods {
		f := &l.Pods[i].Facts
		if f.Unit == "" || !f.Ours || f.Deleting || f.Finished {
			continue
		}
		name := f.Namespace + "/" + f.Unit
		if f.Node != "" {
			placed[name] = true
		} else if !f.Gated {
			if units[name] == nil {
				units[name] = &waitingUnit{}
			}
			units[name].members = append(units[name].members, f)
		}
	}
	need := make(map[string]int)
	for i := range l.Units {
		u := &l.Units[i]
		if name := u.Facts.Namespace + "/" + u.Facts.Name; u.Known && u.Facts.Invalid == "" && units[name] != nil {
			need[name] = int(u.Facts.MinMember)
			units[name].topology, units[name].subgroups = u.Facts.Topology, u.Facts.SubgroupTopology
		}
	}
	for name, u := range units {
		slices.SortFunc(u.members, func(a, b *facts.Pod) int { return cmp.Compare(a.Name, b.Name) })
		n, known := need[name]
		if !known || placed[name] || n < 1 || len(u.members) < n {
			delete(units, name)
			continue
		}
		u.all, u.members = u.members, u.members[:n]
	}
	return units
}

// unit is a unit that waits: a gang, or the one pod of that name; nil: there is none.
func (j *judge) unit(name string) *waitingUnit {
	if u := j.units[name]; u != nil {
		return u
	}
	if f := j.waiting[name]; f != nil {
		alone := []*facts.Pod{f}
		return &waitingUnit{all: alone, members: alone}
	}
	return nil
}

// places are where the rehearsal has placed the pods of a unit.
func (f *Forecast) places(u *waitingUnit) (nodes []string) {
	for _, member := range u.all {
		at := slices.IndexFunc(f.Placed, func(p PlacedPod) bool { return p.Namespace == member.Namespace && p.Name == member.Name })
		if at >= 0 {
			nodes = append(nodes, f.Placed[at].Node)
		}
	}
	return nodes
}

// grows reports whether room is for a pod that is to grow where it is.
func (j *judge) grows(name string) bool {
	return slices.ContainsFunc(j.view.Growths, func(g reschedule.Growth) bool { return g.Name == name })
}

// stillWaits reports whether somebody for whom room is made has no place after all.
func (j *judge) stillWaits(unit string, f *Forecast) bool {
	if j.grows(unit) {
		return f.waitingPlaces[unit]
	}
	u := j.unit(unit)
	return u == nil || len(f.places(u)) < len(u.members)
}

// shown says where the rehearsal places the units for which pods are moved.
func (j *judge) shown(batches [][]reschedule.Planned, forecast *Forecast) (list []RoomShown) {
	moves := make(map[string]int)
	var order []string
	for _, p := range slices.Concat(batches...) {
		if p.For == "" || j.grows(p.For) {
			continue
		}
		if moves[p.For]++; moves[p.For] == 1 {
			order = append(order, p.For)
		}
	}
	for _, name := range order {
		u := j.unit(name)
		r := RoomShown{Unit: name, Moves: moves[name], Nodes: forecast.places(u)}
		slices.Sort(r.Nodes)
		r.Nodes = slices.Compact(r.Nodes)
		for _, key := range required(u.topology) {
			if at := j.store.Slot(r.Nodes[0]); at >= 0 {
				r.Domain = append(r.Domain, key+"="+j.store.State.Node(at).Labels[key])
			}
		}
		list = append(list, r)
	}
	return list
}

// domain is some of the nodes, by index; nil: all of them.
type domain []bool

func (d domain) has(node int) bool { return d == nil || d[node] }

// state is what a search changes, so that it can be taken back.
type state struct {
	now    []fragment.Node
	at     []int
	grants []topology.Grant
}

func (j *judge) save() state {
	return state{slices.Clone(j.now), slices.Clone(j.at), slices.Clone(j.grants)}
}

func (j *judge) restore(s state) { j.now, j.at, j.grants = s.now, s.at, s.grants }

// search is room for one unit in the making. Pods that may be moved are the same all the time, but for those that were.
type search struct {
	j   *judge
	may func(pod int) bool
	// fit are the nodes that a member's node selector, affinity and tolerations allow.
	fit map[*facts.Requirements]domain
}

// Room is reschedule.Judge's: a unit is a pod by its namespace and name, or a gang that waits as a whole. Room is made for one member after the other, in the domain that takes
// the fewest moves; if that fails for one, nothing is moved for the gang.
func (j *judge) Room(unit string, most int, may func(int) bool) ([]reschedule.Step, bool) {
	u := j.unit(unit)
	if u == nil {
		return nil, false
	}
	s := search{j, may, make(map[*facts.Requirements]domain)}
	before := j.save()
	members := slices.Clone(u.members)
	slices.SortStableFunc(members, func(a, b *facts.Pod) int { // the largest first, as long as there is most room
		return cmp.Compare(b.Requirements.GPU.Total(), a.Requirements.GPU.Total())
	})
	steps, ok := s.inOneDomain(members, u.topology, u.subgroups, nil, most)
	if !ok {
		j.restore(before)
	}
	return steps, ok
}

// inOneDomain makes room in one domain of what the packing requires, inside of the nodes: in that of the fewest moves.
func (s *search) inOneDomain(members []*facts.Pod, packing, subgroups facts.Packing, in domain, most int) (best []reschedule.Step, ok bool) {
	keys := required(packing)
	if len(keys) == 0 {
		return s.bySubgroup(members, subgroups, in, most)
	}
	var after state
	before := s.j.save()
	for _, d := range s.promising(members, s.j.domains(keys, in)) {
		steps, fits := s.bySubgroup(members, subgroups, d, most)
		if fits {
			best, after, ok = steps, s.j.save(), true
			most = len(steps) - 1 // only what is cheaper is better
		}
		s.j.restore(before)
		before = s.j.save()
		if most < 0 {
			break
		}
	}
	if ok {
		s.j.restore(after)
	}
	return best, ok
}

// required are the labels of which the nodes of all members must have one value.
func required(p facts.Packing) (keys []string) {
	for _, key := range []string{p.Uniform, p.Required} {
		if key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// domains are the nodes that agree in their values of some labels, inside of others. Nodes without one of the labels are in none.
func (j *judge) domains(keys []string, in domain) (list []domain) {
	index := make(map[string]int)
	for i, n := range j.nodes {
		values := make([]string, 0, len(keys))
		for _, key := range keys {
			if value, ok := n.Labels[key]; ok {
				values = append(values, fmt.Sprintf("%q", value))
			}
		}
		if len(values) < len(keys) || !in.has(i) {
			continue
		}
		name := strings.Join(values, ",")
		at, known := index[name]
		if !known {
			at = len(list)
			index[name] = at
			list = append(list, make(domain, len(j.nodes)))
		}
		list[at][i] = true
	}
	return list
}

// promising are the domains that seem to need the fewest moves, the best first. Those in which there can be no room are left out.
func (s *search) promising(members []*facts.Pod, domains []domain) []domain {
	if len(domains) < 2 {
		return domains
	}
	t := s.j.assignment(s.may)
	s.j.mover.SurveyInto(t, s.into(nil))
	type estimated struct {
		domain
		moves int
	}
	list := make([]estimated, 0, len(domains))
	for _, d := range domains {
		if moves := s.estimate(t, members, d); moves < manyMoves {
			list = append(list, estimated{d, moves})
		}
	}
	slices.SortStableFunc(list, func(a, b estimated) int { return cmp.Compare(a.moves, b.moves) })
	out := make([]domain, 0, maxRoomDomains)
	for i := range list[:min(len(list), maxRoomDomains)] {
		out = append(out, list[i].domain)
	}
	return out
}

// estimate is about how many moves it takes until the members fit a domain: members that fit take room first, then the nodes that are emptied by the fewest moves have one each.
func (s *search) estimate(t *fragment.Assignment, members []*facts.Pod, d domain) (moves int) {
	free := make(map[int]*fragment.Node)
	var missing []*facts.Pod
	for _, f := range members {
		request := &s.j.kinds[s.j.kindFor(f)]
		fits := s.suits(f.Requirements)
		at := -1
		for i := range d {
			if !d[i] || !fits[i] {
				continue
			}
			if free[i] == nil {
				n := s.j.now[i]
				free[i] = &n
			}
			if gpu, ok := firstGPU(free[i], request); ok {
				free[i].Take(request, gpu)
				at = i
				break
			}
		}
		if at < 0 {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		return 0
	}
	kind := s.j.kindFor(missing[0])
	fits := s.suits(missing[0].Requirements)
	var each []int
	for i := range d {
		if !d[i] || !fits[i] {
			continue
		}
		if n, ok := s.j.mover.Fewest(t, i, kind, fragment.MaxMoves); ok {
			each = append(each, max(n, 1))
		}
	}
	if len(each) == 0 {
		return manyMoves
	}
	slices.Sort(each)
	for i := range missing {
		moves += each[min(i, len(each)-1)]
	}
	return moves
}

// firstGPU is a GPU of a node on which a request fits.
func firstGPU(n *fragment.Node, r *fragment.Request) (gpu int, ok bool) {
	if !n.Fits(r) {
		return 0, false
	}
	for r.GPU.Milli > 0 && n.Free[gpu] < int32(r.GPU.Milli) {
		gpu++
	}
	return gpu, true
}

// bySubgroup makes room for each subgroup in a domain of its own, the largest first, and for the others anywhere inside of the nodes.
func (s *search) bySubgroup(members []*facts.Pod, subgroups facts.Packing, in domain, most int) ([]reschedule.Step, bool) {
	if len(required(subgroups)) == 0 {
		return s.cheaper(members, in, in, most)
	}
	names := make(map[string][]*facts.Pod)
	var order []string
	for _, f := range members {
		if names[f.Subgroup] == nil {
			order = append(order, f.Subgroup)
		}
		names[f.Subgroup] = append(names[f.Subgroup], f)
	}
	slices.SortStableFunc(order, func(a, b string) int {
		if a == "" || b == "" {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(len(names[b]), len(names[a]))
	})
	var steps []reschedule.Step
	for _, name := range order {
		packing := subgroups
		if name == "" {
			packing = facts.Packing{}
		}
		more, ok := s.inOneDomain(names[name], packing, facts.Packing{}, in, most-len(steps))
		if !ok {
			return nil, false
		}
		steps = append(steps, more...)
	}
	return steps, true
}

// cheaper makes room on some nodes and moves pods off these, or only about on all nodes, whichever needs fewer moves. Who is moved within a domain may stand in the way again.
func (s *search) cheaper(members []*facts.Pod, in, leave domain, most int) (best []reschedule.Step, ok bool) {
	if in == nil {
		return s.each(members, nil, nil, most)
	}
	outside := make(domain, len(leave))
	for i := range leave {
		outside[i] = !leave[i]
	}
	before := s.j.save()
	best, ok = s.each(members, in, outside, most)
	if ok && len(best) <= 1 {
		return best, true
	}
	after := s.j.save()
	s.j.restore(before)
	if ok {
		most = len(best) - 1
	}
	if steps, fewer := s.each(members, in, nil, most); fewer {
		return steps, true
	}
	s.j.restore(after)
	return best, ok
}

// each makes room for one member after the other, or for several that are alike on one node where that takes fewer moves for each.
func (s *search) each(members []*facts.Pod, in, into domain, most int) (steps []reschedule.Step, ok bool) {
	surveyed := -1
	for len(members) > 0 {
		kind := s.j.kindFor(members[0])
		hosts := s.hosts(members[0], in)
		if node, gpu, _, fits := s.j.bestOf(kind, hosts); fits {
			s.j.now[node].Take(&s.j.kinds[kind], gpu) // it fits as it is
			members = members[1:]
			continue
		}
		if most <= len(steps) {
			return nil, false
		}
		kinds := s.together(members)
		t := s.j.assignment(s.may)
		if surveyed != len(steps) {
			s.j.mover.SurveyInto(t, s.into(into))
			surveyed = len(steps)
		}
		var best fragment.MovePlan
		n := 0
		for i, kind := range kinds {
			plan, fits := s.j.mover.PlanWithin(t, kind, most-len(steps), s.j.loss, fragment.Within{Into: s.into(into), Hosts: hosts})
			if fits && (n == 0 || len(plan.Steps)*n <= len(best.Steps)*(i+1)) {
				best, n = plan, i+1
			}
		}
		if n == 0 {
			return nil, false
		}
		more, done := s.apply(&best, kinds[n-1])
		if !done {
			return nil, false
		}
		steps, members = append(steps, more...), members[n:]
	}
	return steps, true
}

// together are the kinds of one, two and more members on one node, as far as those that come next are alike and a node may have them.
func (s *search) together(members []*facts.Pod) (kinds []int32) {
	first := s.j.kindFor(members[0])
	one := s.j.kinds[first]
	for i, f := range members {
		n := i + 1
		if s.j.kindFor(f) != first || f.Requirements != members[0].Requirements || n > 1 && (one.GPU.Milli > 0 || n*int(one.GPU.Whole) > topology.MaxGPUs) {
			break
		}
		sum := fragment.Request{CPU: one.CPU * int64(n), Memory: one.Memory * int64(n), GPU: topology.Request{Milli: one.GPU.Milli, Whole: one.GPU.Whole * int8(n)}, Models: one.Models}
		if kinds = append(kinds, s.j.numbered(&sum)); n == maxTogether {
			break
		}
	}
	return kinds
}

// apply does a plan in the copy, and gives the room to whoever it is for.
func (s *search) apply(room *fragment.MovePlan, kind int32) (steps []reschedule.Step, ok bool) {
	for i := range room.Steps {
		step := &room.Steps[i]
		pod := s.j.find(step, s.may)
		if pod < 0 {
			return nil, false
		}
		s.j.apply(pod, step.To, step.GPU)
		steps = append(steps, reschedule.Step{Pod: pod, To: step.To, GPU: step.GPU})
	}
	s.j.now[room.Node].Take(&s.j.kinds[kind], room.GPU)
	return steps, true
}

// into reports which nodes pods may be moved to.
func (s *search) into(d domain) func(int) bool {
	return func(node int) bool { n := &s.j.view.Nodes[node]; return d.has(node) && !n.Closed && n.Leaving == "" }
}

// hosts reports which nodes may have a member.
func (s *search) hosts(f *facts.Pod, in domain) func(int) bool {
	fits, open := s.suits(f.Requirements), s.into(in)
	return func(node int) bool { return fits[node] && open(node) }
}

// suits are the nodes that a pod's selectors and tolerations allow.
func (s *search) suits(r *facts.Requirements) domain {
	d, ok := s.fit[r]
	if !ok {
		d = make(domain, len(s.j.nodes))
		for i, n := range s.j.nodes {
			d[i] = r.Selects(n) && facts.Untolerated(n, r.Tolerations) == nil
		}
		s.fit[r] = d
	}
	return d
}
