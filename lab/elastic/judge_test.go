package elastic

import (
	"fmt"
	"math"
)

// Bounds are what a run must keep to, in seconds. They leave room for a machine that is busy with other things; those that are 0 are not asked for.
type Bounds struct {
	Cores     float64 // the worst node's online pods have their CPUs
	Elsewhere float64 // the last pod that was evicted runs on another node
	Evictions int     // there are at least so many
	Resumed   float64 // after the load fell, the worst node's reclaimed pods have what they want
}

// Judge says what is wrong with a run.
func Judge(r *Result, b Bounds) (wrong []string) {
	f := &r.Figures
	complain := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, n := range r.Nodes {
		switch n.Role {
		case roleTide:
			complain(n.Short == 0, "%s: its online pods had CPUs enough when the load rose, so nothing was given back", n.Name)
			complain(n.StillShort || n.Short > b.Cores, "%s: its online pods lacked CPUs until %.1f s, want at most %.0f s", n.Name, n.Short, b.Cores)
		case roleBlind:
			complain(n.Short <= b.Cores, "%s: it sees nothing and gave back nevertheless, so it was not the laws that did", n.Name)
		case roleCalm, roleKill:
			complain(n.Short > 0, "%s: its online pods lacked CPUs, and its load did not rise", n.Name)
		}
	}
	complain(f.OnlineTouched > 0, "%d online pods were deleted", f.OnlineTouched)
	complain(f.TwiceInTen > 0, "%d pods were evicted twice in ten minutes", f.TwiceInTen)
	complain(f.OntoStale > 0, "%d reclaimed pods were bound to nodes whose reports were stale", f.OntoStale)
	complain(f.FromKilled > 0, "%d pods were evicted from nodes whose agent was dead", f.FromKilled)
	complain(f.OntoClosed > 0, "%d reclaimed pods were bound to nodes that had evicted one less than %d s before", f.OntoClosed, closedFirst)
	most := int(math.Ceil(max(1, r.Options.Percent/100*float64(r.Options.Nodes*(r.Options.Queue+1))))) + 1
	complain(f.WorstMinute > most, "%d evictions in a minute, want at most %d", f.WorstMinute, most)
	complain(f.Evictions < b.Evictions, "%d evictions, want at least %d", f.Evictions, b.Evictions)
	complain(b.Elsewhere > 0 && f.Elsewhere.Worst > b.Elsewhere, "evicted work ran elsewhere only after %.0f s, want %.0f s", f.Elsewhere.Worst, b.Elsewhere)
	complain(f.Elsewhere.N < f.WhileHigh, "of %d that were evicted while the load was high %d ran elsewhere", f.WhileHigh, f.Elsewhere.N)
	r.judgeProbes(complain)
	if r.Fell > 0 {
		complain(b.Resumed > 0 && (f.Resumed.N < r.Options.Tide || f.Resumed.Worst > b.Resumed),
			"on %d of %d nodes reclaimed pods had what they want again, the last after %.0f s", f.Resumed.N, r.Options.Tide, f.Resumed.Worst)
	}
	return wrong
}

// judgeProbes sees to it that what was asked for while the load was high went where there was room, and nowhere else.
func (r *Result) judgeProbes(complain func(bool, string, ...any)) {
	roles := make(map[string]string)
	for _, n := range r.Nodes {
		roles[n.Name] = n.Role
	}
	asked, went := 0, 0
	for _, e := range r.Events {
		switch {
		case !e.Probe || r.Fell > 0 && e.At > r.Fell:
		case e.What == created:
			asked++
		case e.What == bound:
			went++
			complain(roles[e.Node] == roleTide || roles[e.Node] == roleKill, "%s was bound to %s, where nothing is offered: %s", e.Pod, e.Node, roles[e.Node])
		}
	}
	complain(asked == 0 || went < asked, "of %d reclaimed pods that came while the load was high %d were bound", asked, went)
}
