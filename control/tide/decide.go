package tide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Hand gives a node to a side.
type Hand struct {
	Node string
	To   Side
	// First: nobody had it before. It is online's by that, as it was, and does not count as a change.
	First bool
	Why   string
}

// Upcoming is the window that begins next.
type Upcoming struct {
	Name   string
	Begins time.Time
	Online int
}

// Outcome is how a pool stands.
type Outcome int

// The outcomes, the worst last.
const (
	Satisfied Outcome = iota // online has what it should
	Changing                 // nodes are to change hands, or pods of the other side are on nodes
	Bounded                  // more should change hands than are allowed now
	Short                    // the pool does not have what online should have
	Paused                   // it is to be left alone
)

// Decision is what should become of a pool.
type Decision struct {
	Memory

	Hands []Hand
	// Nodes, Online and Offline count the open nodes before the hand-overs.
	Nodes, Online, Offline int
	// Wanted is how many online should have, and Why by what.
	Wanted  int
	Why     string
	Next    *Upcoming
	Outcome Outcome
	// Message says more about the outcome.
	Message string
}

const (
	hour = time.Hour
	// merged is within which time hand-overs are remembered as one, by the first of them. So they count for as much longer.
	merged = time.Minute
)

// decision is one Decide.
type decision struct {
	v   *View
	now time.Time
	Decision

	left int // hand-overs that the bound of an hour leaves
}

// Decide says what should become of a pool.
func Decide(v *View, now time.Time) Decision {
	d := &decision{v: v, now: now}
	d.Memory = Memory{Low: v.Low, Most: v.Most}
	for i := range v.Nodes {
		switch n := &v.Nodes[i]; {
		case !n.Open:
		case n.of() == Offline:
			d.Offline++
		default:
			d.Online++
		}
	}
	d.Nodes = d.Online + d.Offline
	d.Next = d.next()
	d.Wanted, d.Why = d.wanted(v.Lead)
	d.rate()
	switch asked := d.Wanted; {
	case v.Paused:
		d.Outcome, d.Message = Paused, "spec.paused is true: all nodes stay as they are"
		d.Low, d.Most = time.Time{}, 0
		return d.Decision
	case asked > d.limit():
		d.Wanted = d.limit()
		d.worse(Short, fmt.Sprintf("online should have %d nodes (%s); of %d nodes offline keeps %d", asked, d.Why, d.Nodes, v.ReserveOffline))
	}
	d.assign()
	if d.Online < d.Wanted {
		d.Low, d.Most = time.Time{}, 0
		d.take()
	} else {
		d.giveBack()
	}
	d.changing()
	if most := d.limit(); d.Outcome == Satisfied && d.Next != nil && d.Next.Online > most {
		d.Message = fmt.Sprintf("the window %s wants %d nodes, and the pool has %d for online", d.Next.Name, d.Next.Online, most)
	}
	return d.Decision
}

// worse keeps the worst outcome.
func (d *decision) worse(o Outcome, message string) {
	if o > d.Outcome {
		d.Outcome, d.Message = o, message
	}
}

// limit is how many nodes online may have at the most. Where there are too few for both reserves online keeps its own.
func (d *decision) limit() int {
	return max(d.Nodes-d.v.ReserveOffline, min(d.v.ReserveOnline, d.Nodes))
}

// wanted is how many nodes online should have, and why. What begins within ahead counts.
func (d *decision) wanted(ahead time.Duration) (nodes int, why string) {
	nodes, why = d.v.ReserveOnline, "the reserve of online"
	if d.v.Need > nodes {
		nodes, why = d.v.Need, "what pods of online ask for"
	}
	if f := &d.v.Forecast; f.Trusted {
		if expected := int(math.Ceil(f.High - 1e-9)); expected > nodes {
			nodes, why = expected, "the forecast"
		}
	}
	for i := range d.v.Windows {
		w := &d.v.Windows[i]
		if planned := d.planned(w, ahead); planned > nodes {
			nodes, why = planned, "the window "+w.Name
		}
	}
	return nodes, why
}

// planned is how many nodes a window asks for now: all of them when it has begun or begins within ahead, and before that as many as can no longer wait, since only so many change
// hands in an hour.
func (d *decision) planned(w *Window, ahead time.Duration) int {
	if begun := w.Begins.Next(d.now.Add(-w.Duration)); !begun.IsZero() && !begun.After(d.now) {
		return w.Online
	}
	begins := w.Begins.Next(d.now)
	if begins.IsZero() {
		return 0
	}
	left := float64(begins.Add(-ahead).Sub(d.now)) / float64(hour+merged)
	later := max(math.Floor(left*float64(d.v.PerHour))-1, 0) // one in reserve: decisions come at times of their own
	return int(max(float64(w.Online)-later, 0))
}

func (d *decision) next() *Upcoming {
	var next *Upcoming
	for i := range d.v.Windows {
		w := &d.v.Windows[i]
		if begins := w.Begins.Next(d.now); !begins.IsZero() && (next == nil || begins.Before(next.Begins)) {
			next = &Upcoming{w.Name, begins, w.Online}
		}
	}
	return next
}

// rate counts the hand-overs of the last hour: as the memory has them, and as the nodes themselves say, whichever is more. A write of the memory may have failed.
func (d *decision) rate() {
	used, said := 0, 0
	for _, h := range d.v.HandOvers {
		if d.now.Sub(h.At) < hour+merged {
			d.HandOvers = append(d.HandOvers, h)
			used += h.Nodes
		}
	}
	for i := range d.v.Nodes {
		if since := d.v.Nodes[i].Since; !since.IsZero() && d.now.Sub(since) < hour {
			said++
		}
	}
	d.left = max(d.v.PerHour-max(used, said), 0)
}

// assign gives nodes that nobody has to online: that is what they were.
func (d *decision) assign() {
	for i := range d.v.Nodes {
		if n := &d.v.Nodes[i]; n.Side == Unassigned {
			d.Hands = append(d.Hands, Hand{Node: n.Name, To: Online, First: true, Why: "it is new in the pool"})
		}
	}
}

// take gives nodes of offline to online.
func (d *decision) take() {
	want, spare := d.Wanted-d.Online, d.Offline-d.v.ReserveOffline
	if spare <= 0 {
		return // Wanted is within the limit, so online is below its own reserve and offline has nothing to give
	}
	groups := d.groups(Offline)
	var rest []group
	for _, g := range groups {
		if n := len(g.nodes); n <= min(want, spare, d.left) {
			d.hand(&g, Online)
			want, spare = want-n, spare-n
		} else {
			rest = append(rest, g)
		}
	}
	// A gang that is larger than what is missing is taken whole, if nothing else is left.
	for _, g := range rest {
		if n := len(g.nodes); want > 0 && n > want && n <= spare && (n <= d.left || d.left == d.v.PerHour) {
			d.hand(&g, Online)
			want, spare = want-n, spare-n
		}
	}
	switch {
	case want <= 0:
	case d.left == 0:
		d.worse(Bounded, fmt.Sprintf("online needs %d nodes more (%s); %d have changed hands within the hour, and no more may", want, d.Why, d.v.PerHour))
	default:
		d.worse(Changing, fmt.Sprintf("online needs %d nodes more (%s), and none can be taken now%s", want, d.Why, d.barred(Offline)))
	}
}

// giveBack gives nodes that online has had too many of for a while to offline.
func (d *decision) giveBack() {
	soon, _ := d.wanted(d.v.Lead + d.v.Hold)
	soon = min(soon, d.limit())
	owed := d.Offline < d.v.ReserveOffline && d.Online > d.v.ReserveOnline // then nothing is waited for
	if d.Online-soon <= d.v.Slack && !owed {
		d.Low, d.Most = time.Time{}, 0
		return
	}
	if d.Low.IsZero() || d.Low.After(d.now) {
		d.Low, d.Most = d.now, soon
	}
	d.Most = max(d.Most, soon)
	surplus := d.Online - d.Most // which is the reserve of online at the least
	switch held := d.now.Sub(d.Low) >= d.v.Hold; {
	case owed && (!held || surplus <= d.v.Slack):
		surplus = min(d.v.ReserveOffline-d.Offline, d.Online-max(soon, d.v.ReserveOnline))
	case !held:
		return
	case surplus <= d.v.Slack: // it needed more in the meantime
		d.Low, d.Most = d.now, soon
		return
	}
	budget := d.v.Budget
	for _, g := range d.groups(Online) {
		n, pods := len(g.nodes), g.pods
		if n <= min(surplus, d.left) && g.stuck == 0 && pods <= budget {
			d.hand(&g, Offline)
			surplus, budget = surplus-n, budget-pods
		}
	}
	if surplus > 0 && d.left == 0 {
		d.worse(Bounded, fmt.Sprintf("online has %d nodes too many; %d have changed hands within the hour, and no more may", surplus, d.v.PerHour))
	} else if surplus > 0 {
		d.worse(Changing, fmt.Sprintf("online has %d nodes too many; none of them can go to offline now: their pods may not be moved, or have no other place%s", surplus, d.barred(Online)))
	}
	if surplus <= 0 && !owed {
		d.Low, d.Most = time.Time{}, 0
	}
}

// barred says why the first node of a side that is barred is.
func (d *decision) barred(s Side) string {
	for i := range d.v.Nodes {
		if n := &d.v.Nodes[i]; n.Open && n.of() == s && n.Barred != "" {
			return fmt.Sprintf(" (%s: %s)", n.Name, n.Barred)
		}
	}
	return ""
}

func (d *decision) hand(g *group, to Side) {
	why := d.Why
	if to == Offline {
		why = fmt.Sprintf("online needs %d nodes", d.Wanted)
	}
	for _, at := range g.nodes {
		d.Hands = append(d.Hands, Hand{Node: d.v.Nodes[at].Name, To: to, Why: why})
	}
	d.left = max(d.left-len(g.nodes), 0)
	if last := len(d.HandOvers) - 1; last >= 0 && d.now.Sub(d.HandOvers[last].At) < merged {
		d.HandOvers[last].Nodes += len(g.nodes)
	} else {
		d.HandOvers = append(d.HandOvers, HandOvers{d.now, len(g.nodes)})
	}
	d.worse(Changing, fmt.Sprintf("nodes change hands to %s: %s", to, why))
}

// changing looks at pods that are on nodes of the other side.
func (d *decision) changing() {
	nodes, pods := 0, 0
	for i := range d.v.Nodes {
		n := &d.v.Nodes[i]
		if h := n.held(n.of().Other()); n.Open && h.Pods > 0 {
			nodes++
			pods += h.Pods
		}
	}
	if nodes > 0 {
		d.worse(Changing, fmt.Sprintf("%d pods are still on %d nodes of the other side", pods, nodes))
	}
}

// group is nodes that change hands together, since they share gangs of the side that leaves.
type group struct {
	nodes       []int
	pods, stuck int
	lost        float64
}

// groups are the nodes of a side that may change hands, those first whose pods lose the least.
func (d *decision) groups(s Side) []group {
	leader := make([]int, len(d.v.Nodes))
	for i := range leader {
		leader[i] = i
	}
	find := func(i int) int {
		for leader[i] != i {
			leader[i] = leader[leader[i]]
			i = leader[i]
		}
		return i
	}
	first := make(map[string]int)
	for i := range d.v.Nodes {
		n := &d.v.Nodes[i]
		if n.of() != s {
			continue
		}
		for _, gang := range n.held(s).Gangs {
			if at, known := first[gang]; known {
				leader[find(i)] = find(at)
			} else {
				first[gang] = i
			}
		}
	}
	by := make(map[int]*group)
	var order []int
	out := make(map[int]bool)
	for i := range d.v.Nodes {
		n := &d.v.Nodes[i]
		if n.of() != s {
			continue
		}
		at := find(i)
		g := by[at]
		if g == nil {
			g = &group{}
			by[at], order = g, append(order, at)
		}
		h := n.held(s)
		g.nodes, g.pods, g.stuck, g.lost = append(g.nodes, i), g.pods+h.Pods, g.stuck+h.Stuck, g.lost+h.Lost
		out[at] = out[at] || !n.Open || n.Barred != "" || n.Side == Unassigned
	}
	var list []group
	for _, at := range order {
		if !out[at] {
			list = append(list, *by[at])
		}
	}
	slices.SortStableFunc(list, func(a, b group) int {
		na, nb := float64(len(a.nodes)), float64(len(b.nodes))
		return cmp.Or(cmp.Compare(min(a.stuck, 1), min(b.stuck, 1)), cmp.Compare(a.lost/na, b.lost/nb), cmp.Compare(float64(a.pods)/na, float64(b.pods)/nb),
			cmp.Compare(d.v.Nodes[a.nodes[0]].Name, d.v.Nodes[b.nodes[0]].Name))
	})
	return list
}

// Leaving says which nodes are to be left by the pods of the other side now: those on which they have stayed for as long as they may, and, while services wait, all nodes of online. The
// value is why.
func Leaving(v *View, now time.Time) map[string]string {
	out := make(map[string]string)
	if v.Paused {
		return out
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Side == Unassigned || n.held(n.Side.Other()).Pods == 0 {
			continue
		}
		if now.Sub(n.Since) >= v.Stay || n.Side == Online && v.Waits {
			out[n.Name] = fmt.Sprintf("%s belongs to %s", n.Name, n.Side)
		}
	}
	return out
}
