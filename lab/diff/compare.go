package diff

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is where the two schedulers disagree about a pod.
type Difference struct {
	// Kind groups differences that may have one cause, so that shrinking does not wander off: what is compared, and the plugin.
	Kind string
	Text string
}

func (d Difference) String() string { return d.Kind + ": " + d.Text }

// compare returns every difference about one pod. Upstream's verdict is the reference.
//
// A score that upstream skipped counts as 0 for all nodes; ours may be any constant then, for it decides nothing.
func compare(theirs *Verdict, ours *verdict) []Difference {
	var out []Difference
	add := func(kind, format string, args ...any) {
		out = append(out, Difference{kind, fmt.Sprintf(format, args...)})
	}
	if len(theirs.Opinions) != len(ours.Opinions) {
		add("nodes", "upstream sees %d nodes, Hilbert %d", len(theirs.Opinions), len(ours.Opinions))
		return out
	}
	feasible := slices.ContainsFunc(theirs.Opinions, func(o Opinion) bool { return o.Refusal == "" })
	if ours.Refused != "" {
		if feasible {
			add("refused", "Hilbert refuses the pod as a whole: %s", ours.Refused)
		}
		return out
	}
	for i := range theirs.Opinions {
		out = append(out, compareFeasible(&theirs.Opinions[i], &ours.Opinions[i])...)
	}
	if len(out) == 0 && theirs.ScoreError == "" {
		out = compareScores(theirs, ours)
	}
	if ours.Chosen != ours.Best {
		add("place", "the index chooses %q, the tables say %q", ours.Chosen, ours.Best)
	}
	if ours.Lazy != ours.Chosen {
		add("lazy", "the index that followed later chooses %q, the other %q", ours.Lazy, ours.Chosen)
	}
	if len(out) == 0 && feasible && theirs.ScoreError == "" && !slices.Contains(theirs.best(), ours.Chosen) {
		add("best", "the best nodes are %v by upstream; Hilbert chooses %q", theirs.best(), ours.Chosen)
	}
	return out
}

func compareFeasible(theirs, ours *Opinion) []Difference {
	switch {
	case theirs.Node != ours.Node:
		return []Difference{{"nodes", fmt.Sprintf("upstream sees %s where Hilbert sees %s", theirs.Node, ours.Node)}}
	case (theirs.Refusal == "") == (ours.Refusal == ""):
		return nil
	case theirs.Refusal != "":
		return []Difference{{"feasible " + theirs.Refusal, fmt.Sprintf("node %s: upstream's %s refuses it, Hilbert finds it feasible", theirs.Node, theirs.Refusal)}}
	}
	return []Difference{{"refusal " + ours.Refusal, fmt.Sprintf("node %s: upstream finds it feasible, Hilbert's %s refuses it", theirs.Node, ours.Refusal)}}
}

// compareScores compares scores and totals of the feasible nodes, and the set of the best.
func compareScores(theirs *Verdict, ours *verdict) []Difference {
	var out []Difference
	var skipped [len(scoreNames)]*Opinion // whose score of ours the others must have
	for i := range theirs.Opinions {
		t, o := &theirs.Opinions[i], &ours.Opinions[i]
		if t.Refusal != "" {
			continue
		}
		for k, name := range scoreNames {
			switch {
			case t.Scored[k] && (!o.Scored[k] || t.Scores[k] != o.Scores[k]):
				out = append(out, Difference{"score " + name, fmt.Sprintf("node %s: %s: upstream %d, Hilbert %d", t.Node, name, t.Scores[k], o.Scores[k])})
			case t.Scored[k]:
			case skipped[k] == nil:
				skipped[k] = o
			case skipped[k].Scores[k] != o.Scores[k]:
				out = append(out, Difference{"score " + name, fmt.Sprintf("upstream skips %s, Hilbert gives %s %d but %s %d",
					name, skipped[k].Node, skipped[k].Scores[k], o.Node, o.Scores[k])})
			}
		}
	}
	if a, b := theirs.best(), ours.best(); len(out) == 0 && !slices.Equal(a, b) {
		out = append(out, Difference{"best", fmt.Sprintf("the best nodes are %v by upstream, %v by Hilbert", a, b)})
	}
	return out
}

// best lists the feasible nodes with the greatest total.
func (v *Verdict) best() []string {
	var best []string
	var total int64
	for i := range v.Opinions {
		o := &v.Opinions[i]
		if o.Refusal != "" || len(best) > 0 && o.Total < total {
			continue
		}
		if len(best) == 0 || o.Total > total {
			best, total = best[:0], o.Total
		}
		best = append(best, o.Node)
	}
	return best
}

// refuses reports whether some node is not feasible.
func (v *Verdict) refuses() bool {
	return slices.ContainsFunc(v.Opinions, func(o Opinion) bool { return o.Refusal != "" })
}

// Failure is a case on which the schedulers differ.
type Failure struct {
	Case        *Case
	Number      uint64 // in the sequence of its seed
	Step        int    // the judgement that differs
	Differences []Difference
}

// Kind is the first difference's.
func (f *Failure) Kind() string { return f.Differences[0].Kind }

// String lists what differs.
func (f *Failure) String() string {
	lines := make([]string, 0, len(f.Differences))
	for _, d := range f.Differences {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}
