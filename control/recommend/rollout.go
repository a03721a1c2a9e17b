package recommend

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Stage is how far a rollout is.
type Stage string

// The stages, in order.
const (
	StageIdle   Stage = ""
	StageOne    Stage = "one pod"
	StageCanary Stage = "canary"
	StageAll    Stage = "all"
)

// RolloutParams say how careful a rollout is.
type RolloutParams struct {
	// Canary is the share of pods that are changed in the second stage.
	Canary float64
	// Watch is how long changed pods are watched before the next stage.
	Watch time.Duration
	// Throttled is the share of time by which a changed pod may be throttled more than the control group.
	Throttled float64
	// Confidence is the least that a rollout begins with.
	Confidence float64
	// Pause is how long a rollout waits after it was taken back; it doubles each time, up to PauseMost.
	Pause, PauseMost time.Duration
}

// DefaultRolloutParams are careful.
func DefaultRolloutParams() RolloutParams {
	return RolloutParams{Canary: 0.1, Watch: time.Hour, Throttled: 0.05, Confidence: 0.5, Pause: 6 * time.Hour, PauseMost: 7 * 24 * time.Hour}
}

// Validate says what is wrong with the parameters.
func (p *RolloutParams) Validate() error {
	switch {
	case !(p.Canary > 0 && p.Canary <= 1):
		return fmt.Errorf("recommend: canary %g: want more than 0 and at most 1", p.Canary)
	case p.Watch < 0 || p.Pause < 0 || p.PauseMost < p.Pause:
		return errors.New("recommend: want times to watch and to pause of at least 0, and a longest pause of at least the pause")
	case !(p.Throttled >= 0 && p.Throttled <= 1 && p.Confidence >= 0 && p.Confidence <= 1):
		return fmt.Errorf("recommend: throttled %g, confidence %g: want 0 to 1", p.Throttled, p.Confidence)
	}
	return nil
}

// Before is what a changed pod had.
type Before struct {
	Pod string
	Had Amounts
}

// Rollout is how far a workload's pods are on their way to less. It is stored between calls of Decide.
type Rollout struct {
	Stage Stage
	// Changed are the pods of this rollout.
	Changed []Before
	// Since is when the last pod was changed.
	Since time.Time
	// Began is when the first stage began: pods made since then are changed ones too, where pods are made anew.
	Began time.Time
	// Reverting says why the rollout is being taken back; empty: it is not.
	Reverting string
	// Hold is what new pods get until Pause, where pods are made anew: what they had before.
	Hold Amounts
	// Reverts are how often in a row it was taken back; until Pause nothing begins.
	Reverts int
	Pause   time.Time
}

func (r *Rollout) equal(o *Rollout) bool {
	return r.Stage == o.Stage && r.Since.Equal(o.Since) && r.Reverting == o.Reverting && r.Reverts == o.Reverts && r.Pause.Equal(o.Pause) && slices.Equal(r.Changed, o.Changed)
}

func (r *Rollout) words() string {
	switch {
	case r.Reverting != "":
		return "taken back: " + r.Reverting
	case r.Stage != StageIdle:
		return fmt.Sprintf("stage %s: %s changed", r.Stage, plural(len(r.Changed), "pod"))
	case r.Reverts > 0:
		return fmt.Sprintf("taken back %s in a row: nothing before %s", plural(r.Reverts, "time"), r.Pause.UTC().Format(time.RFC3339))
	}
	return "done"
}

// maxDoublings bounds the pause's exponent.
const maxDoublings = 16

// step takes a rollout one step on. The pods are those that may be changed.
func (r Rollout) step(d *decision, w *Workload, pods []*Pod) Rollout {
	r.Changed = slices.Clone(r.Changed)
	if w.Mode == ModeInPlace {
		r.forget(pods)
	}
	if r.Reverting != "" {
		return r.revert(d, w, pods, r.Reverting)
	}
	if r.Stage != StageIdle {
		if p, why := r.harmed(d, w, pods); p != nil {
			return r.revert(d, w, pods, fmt.Sprintf("pod %s %s", p.Name, why))
		}
	}
	var todo []*Pod
	for _, p := range pods {
		if _, changed := r.had(w, p); !changed && d.target(w, p) != p.Has {
			todo = append(todo, p)
		}
	}
	switch {
	case r.Stage == StageIdle && len(todo) == 0:
		return r
	case r.Stage == StageIdle && d.now.Before(r.Pause):
		d.wait(w, "", "the last change was taken back; the next begins at "+r.Pause.UTC().Format(time.RFC3339))
		return r
	case r.Stage == StageIdle && w.Recommendation.Confidence < d.v.Params.Confidence:
		d.wait(w, "", fmt.Sprintf("confidence %.2f: a change begins at %.2f", w.Recommendation.Confidence, d.v.Params.Confidence))
		return r
	case r.Stage == StageIdle:
		r.Stage, r.Began = StageOne, d.now
	}
	if len(r.Changed) >= r.quota(d, len(pods)) || len(todo) == 0 {
		return r.advance(d, w, pods, todo)
	}
	return r.change(d, w, pods, todo)
}

// forget leaves out pods that are gone.
func (r *Rollout) forget(pods []*Pod) {
	r.Changed = slices.DeleteFunc(r.Changed, func(b Before) bool {
		return !slices.ContainsFunc(pods, func(p *Pod) bool { return p.Name == b.Pod })
	})
}

// had is what a pod had before it was changed; false: it was not.
func (r *Rollout) had(w *Workload, p *Pod) (Amounts, bool) {
	for _, b := range r.Changed {
		if b.Pod == p.Name {
			return b.Had, true
		}
	}
	if w.Mode == ModeRecreate && len(r.Changed) > 0 && !p.Created.Before(r.Began) {
		return r.Changed[0].Had, true
	}
	return Amounts{}, false
}

// target is what the rollout gives a pod. In place it only takes: what pods are to get more of they have got already.
func (d *decision) target(w *Workload, p *Pod) Amounts {
	to := d.wanted(w, p)
	if w.Mode == ModeInPlace {
		to = Amounts{CPU: min(to.CPU, p.Has.CPU), Memory: min(to.Memory, p.Has.Memory)}
	}
	return to
}

// quota is how many pods the stage changes.
func (r *Rollout) quota(d *decision, pods int) int {
	switch r.Stage {
	case StageIdle:
		return 0
	case StageOne:
		return 1
	case StageCanary:
		return max(int(math.Ceil(d.v.Params.Canary*float64(pods))), min(2, pods))
	case StageAll:
	}
	return pods
}

// change changes as many pods as the stage may.
func (r Rollout) change(d *decision, w *Workload, pods, todo []*Pod) Rollout {
	for _, p := range todo {
		if len(r.Changed) >= r.quota(d, len(pods)) {
			break
		}
		if d.change(w, p, d.target(w, p), "stage "+string(r.Stage)) {
			r.Changed = append(r.Changed, Before{p.Name, p.Has})
			r.Since = d.now
		}
	}
	if len(r.Changed) == 0 {
		r.Stage = StageIdle // nothing could be begun
	}
	return r
}

// advance goes to the next stage once changed pods have been watched for long enough, and all of them are known to be well.
func (r Rollout) advance(d *decision, w *Workload, pods, todo []*Pod) Rollout {
	if until := r.Since.Add(d.v.Params.Watch); d.now.Before(until) {
		d.wait(w, "", fmt.Sprintf("stage %s: changed pods are watched until %s", r.Stage, until.UTC().Format(time.RFC3339)))
		return r
	}
	for _, p := range pods {
		if _, changed := r.had(w, p); !changed {
			continue
		}
		if p.Resize != ResizeNone {
			d.wait(w, p.Name, "its resize is not done: the kubelet says "+string(p.Resize))
			return r
		}
		if math.IsNaN(p.Throttled) {
			d.wait(w, p.Name, "whether it is throttled is not known")
			return r
		}
	}
	if r.Stage == StageAll || len(todo) == 0 {
		return Rollout{}
	}
	if r.Stage == StageOne {
		r.Stage = StageCanary
	} else {
		r.Stage = StageAll
	}
	return r
}

// harmed is a changed pod that ran out of memory, or is throttled more than the control group.
func (r *Rollout) harmed(d *decision, w *Workload, pods []*Pod) (*Pod, string) {
	control, _ := d.throttledControl(w, pods)
	for _, p := range pods {
		if _, changed := r.had(w, p); !changed {
			continue
		}
		if p.RanOut > 0 {
			return p, "ran out of memory"
		}
		if p.Throttled > control+d.v.Params.Throttled { // false of NaN
			return p, fmt.Sprintf("is throttled %.0f %% of the time, the control group %.0f %%", 100*p.Throttled, 100*control)
		}
	}
	return nil, ""
}

// revert gives changed pods what they had, but never less memory than is needed, and waits.
func (r Rollout) revert(d *decision, w *Workload, pods []*Pod, why string) Rollout {
	var left []Before
	hold := r.Hold
	if w.Mode == ModeRecreate && len(r.Changed) > 0 {
		hold = r.Changed[0].Had
	}
	for _, p := range pods {
		had, changed := r.had(w, p)
		if !changed {
			continue
		}
		to := w.Policy.kept(p.Has, Amounts{CPU: max(had.CPU, p.Has.CPU), Memory: max(had.Memory, p.Has.Memory)})
		if to == p.Has {
			continue
		}
		if !d.change(w, p, to, "taken back: "+why) || w.Mode == ModeInPlace { // in place the ledger may not have the room yet
			left = append(left, Before{p.Name, had})
		}
	}
	if len(left) > 0 { // the rest follows when the ledger, the budget or the kubelet lets it
		r.Changed, r.Reverting, r.Hold = left, why, hold
		return r
	}
	pause := min(d.v.Params.Pause<<min(r.Reverts, maxDoublings), d.v.Params.PauseMost)
	if pause < d.v.Params.Pause {
		pause = d.v.Params.PauseMost // it overflowed
	}
	return Rollout{Reverts: r.Reverts + 1, Pause: d.now.Add(pause), Hold: hold}
}
