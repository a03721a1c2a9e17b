package interference

import (
	"fmt"
	"slices"
	"time"
)

// release takes back what is done, after calm, or where nothing is known for long.
func (w *Watch) release() []Action {
	why := fmt.Sprintf("%d calm windows", w.calm)
	switch {
	case w.step == 0 || w.calm < w.params.Quiet && w.blind < blindFor:
		return nil
	case w.blind >= blindFor:
		why = fmt.Sprintf("for %d windows it is not known whether the harm goes on", w.blind)
	}
	a := Action{Kind: Release, Neighbour: w.culprit, Reason: why}
	w.clear()
	return []Action{a}
}

// decide goes up and down the ladder.
func (w *Watch) decide(residual float64, which Signal, now time.Time) []Action {
	w.since++
	if released := w.release(); released != nil {
		return released
	}
	if w.high < w.params.Windows || w.step > 0 && w.since < w.params.Patience {
		return nil
	}
	harm := fmt.Sprintf("%s is %.1f deviations beyond its baseline at this load, for %d windows", which, residual, w.high)
	var actions []Action
	if w.step == 0 {
		w.step, w.since = 1, 0
		actions = append(actions, Action{Kind: StopGrowth, Reason: harm, Harm: harm})
	}
	name, evidence := w.name(which)
	if name == "" {
		return actions // nobody can be named: growth stays stopped
	}
	if name != w.culprit {
		w.turn(name)
	} else if w.step == 2 && !w.lasts() {
		return actions // the limit helps
	}
	w.step, w.since = min(w.step+1, 4), 0
	act := func(kind Kind, until time.Time) {
		why := harm + "; " + evidence.Of(name)
		actions = append(actions, Action{Kind: kind, Neighbour: name, Until: until, Reason: why, Harm: harm, Evidence: evidence})
	}
	switch w.step {
	case 2:
		w.before = w.level()
		act(Narrow, time.Time{})
	case 3:
		act(Evict, time.Time{})
		act(KeepApart, now.Add(w.params.Apart))
	}
	return actions
}

// turn goes on with another culprit. Where the last one was limited, that was in vain.
func (w *Watch) turn(name string) {
	if w.step >= 2 && !slices.Contains(w.tried, w.culprit) && len(w.tried) < maxTried {
		w.tried = append(w.tried, w.culprit)
	}
	w.culprit, w.step = name, 1
}

// level is how high the harm is: the median residual of the windows that are asked for.
func (w *Watch) level() float64 {
	last := slices.Clone(w.residuals[len(w.residuals)-w.params.Windows:])
	slices.Sort(last)
	return last[len(last)/2]
}

// lasts reports whether the harm is hardly less than when the culprit was limited, or is still great.
func (w *Watch) lasts() bool {
	const less, great = 0.7, 2
	return w.level() >= min(less*w.before, great*w.params.High)
}
