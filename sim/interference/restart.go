package interference

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hilbert.dev/hilbert/node/interference"
)

// Restart is whether an agent that starts again names the hog.
type Restart struct {
	// When the agent ended, and whether the next one had what it knew.
	When string `json:"when"`
	Kept bool   `json:"kept"`
	// Harmed are mixes whose hog harmed a service. Right and Wrong are those of them in which the next agent named the hog first, or another.
	Harmed int `json:"harmed"`
	Right  int `json:"right"`
	Wrong  int `json:"wrong"`
	// NamedAfter is the median of seconds from when there were both harm and the next agent until it named the hog.
	NamedAfter float64 `json:"secondsToName"`
}

// The times at which an agent ends.
const (
	inHarm     = "in harm that nobody is named for yet"
	beforeHarm = "a minute before harm"
)

// deadWindows is how long there is no agent.
const deadWindows = 3

// outage is when there is no agent, in windows from when the hog comes.
type outage struct {
	when string
	from int
	kept bool
}

func outages() (list []outage) {
	for _, kept := range []bool{true, false} {
		list = append(list, outage{inHarm, 2, kept}, outage{beforeHarm, -6 - deadWindows, kept})
	}
	return list
}

// dead has the agent end and start, and reports whether there is none in a window.
func (a *acting) dead(w int) bool {
	if a.outage == nil {
		return false
	}
	switch from := a.hogAt + a.outage.from; {
	case w == from: // nobody is limited any more
		a.kept, a.err = json.Marshal(a.book.State())
		for i := range a.neighbours {
			a.limit(i, 0)
		}
		a.limits = make(map[string]float64)
		return true
	case w > from && w < from+deadWindows:
		return true
	case w == from+deadWindows:
		a.book, a.named = interference.NewBook(&a.rules), ""
		var state interference.State
		if a.outage.kept && a.err == nil {
			if a.err = json.Unmarshal(a.kept, &state); a.err == nil {
				_, a.err = a.book.Restore(&state, windowTime(w))
			}
		}
	}
	return false
}

func windowTime(w int) time.Time { return time.Unix(int64(w*windowSeconds), 0).UTC() }

// runRestarts plays mixes with a hog whose agent ends and starts.
func runRestarts(ctx context.Context, o *Options, tell func()) (out []Restart, err error) {
	way := ladderWay{asAgent, hogComes, limitHelps}
	for _, away := range outages() {
		r := Restart{When: away.when, Kept: away.kept}
		var after []float64
		for n := range o.Seeds / 2 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			tell()
			a := newActing(o.seed(n), true, way, o)
			a.outage = &away
			if a.play(); a.err != nil {
				return nil, fmt.Errorf("interference: what an agent knew, kept for the next one: %w", a.err)
			}
			if !a.out.harmed {
				continue
			}
			r.Harmed++
			switch a.named {
			case "":
			case a.neighbours[a.hog].name:
				r.Right++
				after = append(after, float64((a.namedAt-max(a.hogAt, a.hogAt+away.from+deadWindows)+1)*windowSeconds))
			default:
				r.Wrong++
			}
		}
		r.NamedAfter = median(after)
		out = append(out, r)
	}
	return out, nil
}
