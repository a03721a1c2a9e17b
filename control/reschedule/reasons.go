package reschedule

import (
	"cmp"
	"fmt"
	"slices"
)

// Proposal is one or more steps that only make sense together, in an order in which each can be done.
type Proposal struct {
	Reason string
	Why    string // for people
	// For is who waits for the room that is made, by its name; empty: no room is made.
	For   string
	Steps []Step
	// Gain is in thousandths of a GPU; what must be done whatever it wins has Must.
	Gain float64
	Must bool
}

// Reason is why pods are moved.
type Reason struct {
	Name    string
	Propose func(d *decision) []Proposal
}

// Names of reasons.
const (
	ReasonLeaving       = "empty a node"
	ReasonHands         = "a node changes hands"
	ReasonBroken        = "a promise is broken"
	ReasonViolated      = "a rule is violated"
	ReasonRoom          = "make room"
	ReasonLoad          = "a node is loaded"
	ReasonFragmentation = "fragmentation"
	ReasonRestart       = "a gang restarts"
)

// Reasons lists why pods are moved, the most pressing first: what is moved for one is not moved again for the next.
func Reasons() []Reason {
	return []Reason{
		{ReasonLeaving, leaving},
		{ReasonHands, hands},
		{ReasonBroken, broken},
		{ReasonViolated, violated},
		{ReasonRoom, growth},
		{ReasonRoom, room},
		{ReasonLoad, loaded},
		{ReasonFragmentation, fragmentation},
		{ReasonRestart, restarts},
	}
}

// leaving empties nodes.
func leaving(d *decision) []Proposal {
	return d.each(ReasonLeaving, func(p *Pod) string { return d.v.Nodes[p.Node].Leaving }, true)
}

// hands moves pods off nodes that belong to another side by now.
func hands(d *decision) []Proposal {
	return d.each(ReasonHands, func(p *Pod) string { return p.Leaves }, true)
}

func broken(d *decision) []Proposal {
	return d.each(ReasonBroken, func(p *Pod) string { return p.Broken }, false)
}

func violated(d *decision) []Proposal {
	return d.each(ReasonViolated, func(p *Pod) string { return p.Violated }, false)
}

// each proposes to move the pods about which something is said.
func (d *decision) each(reason string, why func(*Pod) string, must bool) []Proposal {
	var list []Proposal
	pending := make(map[string]bool) // of a workload one pod is moved at a time: then the rule may hold for the others
	for i := range d.v.Pods {
		p := &d.v.Pods[i]
		text := why(p)
		if text == "" || !d.may(i, must) || !must && pending[p.Workload] {
			continue
		}
		if !must && len(list) >= d.p.Most-d.taken {
			break
		}
		pending[p.Workload] = true
		if to, gpu, ok := d.judge.Target(i, d.open(p.Node)); ok {
			list = append(list, Proposal{Reason: reason, Why: text, Steps: []Step{{i, to, gpu}}, Gain: p.Weight(), Must: must})
		} else {
			d.decline(i, fmt.Sprintf("%s: %s, but it fits no other node", reason, text))
		}
	}
	return list
}

// open are the nodes that a pod may go to from another.
func (d *decision) open(from int) func(int) bool {
	return func(node int) bool { return node != from && !d.v.Nodes[node].Closed && d.v.Nodes[node].Leaving == "" }
}

// whyRoom is the Why of moves that make room for somebody who waits.
func whyRoom(unit string) string { return unit + " waits" }

// maxForGrowth is how many pods leave a node at most for one that is to grow there.
const maxForGrowth = 3

// growth moves pods off nodes on which another one is to grow: the smallest that makes room alone, else the largest ones, as few as do.
func growth(d *decision) []Proposal {
	var list []Proposal
	leaves := make(map[int]bool) // for an earlier growth
	left := d.p.Most - d.taken
	for i := range d.v.Growths {
		g := &d.v.Growths[i]
		steps := d.leave(g, min(left, maxForGrowth), leaves)
		left -= len(steps)
		gain := 0.0
		for _, s := range steps {
			leaves[s.Pod] = true
			gain += d.v.Pods[s.Pod].Weight()
		}
		if len(steps) > 0 {
			list = append(list, Proposal{Reason: ReasonRoom, Why: whyRoom(g.Name), For: g.Name, Steps: steps, Gain: gain})
		}
	}
	return list
}

// leave finds pods, at most so many, whose leaving makes room for a growth; none: it cannot be made, or is there already.
func (d *decision) leave(g *Growth, most int, leaves map[int]bool) (steps []Step) {
	short := make([]int64, len(g.Needs))
	for r, needs := range g.Needs {
		short[r] = max(needs-d.v.Nodes[g.Node].Room.Amounts[r], 0)
	}
	if len(g.Needs) == 0 || slices.Max(short) == 0 {
		return nil
	}
	var may []int
	for i := range d.v.Pods {
		if p := &d.v.Pods[i]; p.Node == g.Node && p.UID != g.Pod && !leaves[i] && p.helps(short) && d.may(i, false) {
			may = append(may, i)
		}
	}
	slices.SortStableFunc(may, func(a, b int) int { return cmp.Compare(d.v.Pods[a].size(short), d.v.Pods[b].size(short)) })
	at := slices.IndexFunc(may, func(i int) bool { return d.v.Pods[i].covers(short) })
	if at >= 0 { // those below it are too small, and those above larger than need be
		may = append(may[at:], may[:at]...)
	} else {
		slices.Reverse(may)
	}
	workloads := make(map[string]bool)
	for _, i := range may {
		p := &d.v.Pods[i]
		if len(steps) == most {
			return nil
		}
		if workloads[p.Workload] {
			continue
		}
		to, gpu, ok := d.judge.Target(i, d.open(g.Node))
		if !ok {
			continue
		}
		workloads[p.Workload] = true
		steps = append(steps, Step{i, to, gpu})
		for r := range short {
			short[r] = max(short[r]-p.Requests[r], 0)
		}
		if slices.Max(short) == 0 {
			return steps
		}
	}
	return nil
}

// helps reports whether a pod holds something of what is short.
func (p *Pod) helps(short []int64) bool {
	for r := range short {
		if short[r] > 0 && p.Requests[r] > 0 {
			return true
		}
	}
	return false
}

// covers reports whether a pod holds all of what is short.
func (p *Pod) covers(short []int64) bool {
	for r := range short {
		if p.Requests[r] < short[r] {
			return false
		}
	}
	return true
}

// size is what a pod holds of what is short, in parts of that.
func (p *Pod) size(short []int64) (sum float64) {
	for r := range short {
		if short[r] > 0 {
			sum += float64(p.Requests[r]) / float64(short[r])
		}
	}
	return sum
}

// room moves pods for those that wait.
func room(d *decision) []Proposal {
	var list []Proposal
	for _, w := range d.v.Waiting {
		left := d.p.Most - d.taken
		if left <= 0 {
			break
		}
		steps, ok := d.judge.Room(w.Name, left, func(pod int) bool { return d.may(pod, false) })
		if ok && len(steps) > 0 {
			list = append(list, Proposal{Reason: ReasonRoom, Why: whyRoom(w.Name), For: w.Name, Steps: steps, Gain: w.Needs})
		}
	}
	return list
}

// loaded moves pods off nodes whose agents report more load than the mark, those first that use the most, until the node is below it. No node gets so many that it would be above the mark.
func loaded(d *decision) []Proposal {
	if d.p.LoadMark <= 0 {
		return nil
	}
	var list []Proposal
	comes := make(map[int]float64) // the use of pods that are to come, by node
	for at := range d.v.Nodes {
		n := &d.v.Nodes[at]
		over := n.Load - d.p.LoadMark*n.CPUs
		if !n.Known || over <= 0 {
			continue
		}
		open := d.open(at)
		for _, i := range d.users(at) {
			if over <= 0 || len(list) >= d.p.Most-d.taken {
				break
			}
			p := &d.v.Pods[i]
			to, gpu, ok := d.judge.Target(i, func(node int) bool {
				to := &d.v.Nodes[node]
				return open(node) && to.Known && to.Load+comes[node]+p.Use <= d.p.LoadMark*to.CPUs
			})
			if ok {
				over -= p.Use
				comes[to] += p.Use
				list = append(list, Proposal{
					Reason: ReasonLoad, Why: fmt.Sprintf("%s uses %.0f %% of its CPUs", n.Name, 100*n.Load/n.CPUs), Steps: []Step{{i, to, gpu}}, Gain: p.Weight(),
				})
			}
		}
	}
	return list
}

// users are the pods of a node that may be moved and of which something is known to be used, those first that use the most, one of each workload.
func (d *decision) users(node int) (list []int) {
	for i := range d.v.Pods {
		if p := &d.v.Pods[i]; p.Node == node && p.Use > 0 && d.may(i, false) {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(d.v.Pods[b].Use, d.v.Pods[a].Use) })
	workloads := make(map[string]bool)
	return slices.DeleteFunc(list, func(i int) bool {
		before := workloads[d.v.Pods[i].Workload]
		workloads[d.v.Pods[i].Workload] = true
		return before
	})
}

// fragmentation moves pods to where the market's prices value them more, unless somebody waits for GPUs and fits nowhere. What such a move frees is soon taken by the pods
// that are most frequent, those of one GPU or less, and pods of several find fewer empty nodes (docs/benchmarks/gpu-packing.md). While somebody waits,
// only moves pay that let them in.
func fragmentation(d *decision) []Proposal {
	left := d.p.Most - d.taken
	if left <= 0 || slices.ContainsFunc(d.v.Waiting, func(w Waiting) bool { return w.Tried && w.Needs > 0 }) {
		return nil
	}
	steps, gains := d.judge.Better(left, func(pod int) bool { return d.may(pod, false) })
	list := make([]Proposal, len(steps))
	for i, s := range steps {
		list[i] = Proposal{Reason: ReasonFragmentation, Why: fmt.Sprintf("%.0f thousandths of a GPU are won", gains[i]), Steps: []Step{s}, Gain: gains[i]}
	}
	return list
}
