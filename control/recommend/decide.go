package recommend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Mode is what may be done with a recommendation.
type Mode string

// The modes: show it only; give it to new pods; resize running pods too; or make pods anew.
const (
	ModeOff      Mode = "Off"
	ModeInitial  Mode = "Initial"
	ModeInPlace  Mode = "InPlace"
	ModeRecreate Mode = "Recreate"
)

// Resize is how far the kubelet is with a resize of a pod.
type Resize string

// What the kubelet answers: nothing is asked for, it will do it when there is room, it never can, or it is about to.
const (
	ResizeNone       Resize = ""
	ResizeDeferred   Resize = "Deferred"
	ResizeInfeasible Resize = "Infeasible"
	ResizeInProgress Resize = "InProgress"
)

// Pod is a pod of a workload as it is now.
type Pod struct {
	Name    string
	Created time.Time
	// Has is what it asks for.
	Has Amounts
	// Unchanged is for how long it has asked for that.
	Unchanged time.Duration
	// RanOut is how often it ran out of memory since then. Throttled is the share of time in which it wanted more CPU since then; NaN is not known.
	RanOut    int
	Throttled float64
	Resize    Resize
	// Least is what it is not brought below now, whatever is recommended: what it would give up is not free. 0 bounds nothing.
	Least Amounts
	// Restarts says that a resize of memory restarts its containers.
	Restarts bool
}

// Workload is what Decide sees of one workload.
type Workload struct {
	Name string
	Mode Mode
	// Recommendation is of the workload's profile under its policy; Known: there is one.
	Recommendation Recommendation
	Known          bool
	Policy         *Policy
	// Baseline is the share of pods, the oldest, that are never changed, as a control group.
	Baseline float64
	Pods     []Pod
	Rollout  Rollout
}

// View is what Decide decides on.
type View struct {
	Workloads []Workload
	// Budget is how many pods may be disturbed now: evicted, or restarted by a resize. It is shared with all else that disturbs pods.
	Budget int
	Params *RolloutParams
	// Follow are the parameters by which a running pod follows its target.
	Follow *Params
}

// Kind is what an Action does.
type Kind string

// The kinds. Publish shows a recommendation, Resize asks the kubelet, Evict makes a pod anew, Advance stores a rollout's new state, and Wait does nothing
// and says why.
const (
	Publish  Kind = "publish"
	ToResize Kind = "resize"
	ToEvict  Kind = "evict"
	Advance  Kind = "advance"
	Wait     Kind = "wait"
)

// Action is one thing to do.
type Action struct {
	Kind     Kind
	Workload string
	Pod      string
	// To is what the pod, or a new one, is to ask for. Reserve is how much more that is than now: it is reserved in the ledger before the pod is resized.
	To, Reserve Amounts
	// Rollout is the state to store.
	Rollout *Rollout
	// Reason says why, in words.
	Reason string
}

// Decide says what to do now. It changes nothing: the caller stores the rollouts of Advance actions, and carries the others out in order.
func Decide(v *View, now time.Time) []Action {
	order := make([]int, len(v.Workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v.Workloads[a].Name, v.Workloads[b].Name) })
	d := decision{v: v, now: now, budget: max(v.Budget, 0), touched: make(map[*Pod]bool)}
	for _, i := range order {
		d.workload(&v.Workloads[i])
	}
	return d.actions
}

// decision is a call of Decide.
type decision struct {
	v       *View
	now     time.Time
	budget  int
	actions []Action
	touched map[*Pod]bool // no pod is changed twice
}

func (d *decision) workload(w *Workload) {
	if !w.Known {
		reason := "no use is known"
		if n := len(w.Recommendation.Reasons); n > 0 {
			reason = w.Recommendation.Reasons[n-1]
		}
		d.wait(w, "", reason)
		return
	}
	d.publish(w)
	if w.Mode != ModeInPlace && w.Mode != ModeRecreate {
		return
	}
	pods := d.changeable(w)
	if w.Mode == ModeInPlace {
		d.grow(w, pods)
	}
	next := w.Rollout.step(d, w, pods)
	if !next.equal(&w.Rollout) {
		d.actions = append(d.actions, Action{Kind: Advance, Workload: w.Name, Rollout: &next, Reason: next.words()})
	}
}

// publish shows what new pods are to ask for.
func (d *decision) publish(w *Workload) {
	a := Action{Kind: Publish, Workload: w.Name, To: w.Recommendation.Target, Reason: d.words(w)}
	switch {
	case w.Mode == ModeOff:
		a.Reason += "; mode Off changes no pod"
	case w.Mode == ModeRecreate && w.Rollout.Hold != (Amounts{}) && d.now.Before(w.Rollout.Pause):
		a.To = w.Rollout.Hold
		a.Reason += "; the last change was taken back, and new pods get what they had"
	}
	d.actions = append(d.actions, a)
}

func (d *decision) words(w *Workload) string {
	said := append([]string{fmt.Sprintf("confidence %.2f", w.Recommendation.Confidence)}, w.Recommendation.Reasons...)
	return strings.Join(said, "; ")
}

func (d *decision) wait(w *Workload, pod, reason string) {
	d.actions = append(d.actions, Action{Kind: Wait, Workload: w.Name, Pod: pod, Reason: reason})
}

// changeable are the pods beside the control group, in order of their names. A workload of one pod has no control group.
func (d *decision) changeable(w *Workload) []*Pod {
	pods := make([]*Pod, len(w.Pods))
	for i := range w.Pods {
		pods[i] = &w.Pods[i]
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	control := min(int(math.Ceil(w.Baseline*float64(len(pods)))), len(pods)-1)
	pods = pods[max(control, 0):]
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// throttledControl is the mean share of throttled time of the control group; false: it has none, or it is not known.
func (d *decision) throttledControl(w *Workload, changeable []*Pod) (float64, bool) {
	sum, n := 0.0, 0
	for i := range w.Pods {
		p := &w.Pods[i]
		if !slices.Contains(changeable, p) && !math.IsNaN(p.Throttled) {
			sum += p.Throttled
			n++
		}
	}
	return sum / float64(max(n, 1)), n > 0
}

// wanted is what a pod should have: the target as a running pod follows it, with what the policy keeps.
func (d *decision) wanted(w *Workload, p *Pod) Amounts {
	to := d.v.Follow.Follow(p.Has, &w.Recommendation, p.Unchanged)
	to.CPU, to.Memory = max(to.CPU, min(p.Least.CPU, p.Has.CPU)), max(to.Memory, min(p.Least.Memory, p.Has.Memory))
	if p.Throttled > d.v.Params.Throttled { // false of NaN
		to.CPU = max(to.CPU, p.Has.CPU) // what it used is not what it wanted
	}
	return w.Policy.kept(p.Has, to)
}

// kept leaves the resources alone that the policy does not control.
func (p *Policy) kept(has, to Amounts) Amounts {
	if p != nil && p.KeepCPU {
		to.CPU = has.CPU
	}
	if p != nil && p.KeepMemory {
		to.Memory = has.Memory
	}
	return to
}

// grow gives pods more at once: that risks room, and no pod. What a pod is to lose goes by the rollout.
func (d *decision) grow(w *Workload, pods []*Pod) {
	for _, p := range pods {
		want := d.wanted(w, p)
		to := Amounts{CPU: max(p.Has.CPU, want.CPU), Memory: max(p.Has.Memory, want.Memory)}
		if to == p.Has {
			continue
		}
		reason := "it needs more than it has"
		if p.RanOut > 0 {
			reason = "it ran out of memory"
		}
		d.change(w, p, to, reason)
	}
}

// change resizes a pod or makes it anew. It answers whether it did.
func (d *decision) change(w *Workload, p *Pod, to Amounts, reason string) bool {
	if d.touched[p] {
		return false
	}
	evict := w.Mode == ModeRecreate
	switch p.Resize {
	case ResizeNone:
	case ResizeInProgress:
		d.wait(w, p.Name, "its last resize is under way")
		return false
	case ResizeDeferred:
		d.wait(w, p.Name, "its node has no room for its last resize: the kubelet deferred it")
		return false
	case ResizeInfeasible:
		if !evict {
			d.wait(w, p.Name, "its node can never resize it; mode Recreate would make it anew")
			return false
		}
	}
	disturbs := evict || p.Restarts && to.Memory != p.Has.Memory
	if disturbs && d.budget == 0 {
		d.wait(w, p.Name, "the budget for disturbed pods is used up")
		return false
	}
	kind := ToResize
	if evict {
		kind = ToEvict
	}
	if disturbs {
		d.budget--
	}
	d.touched[p] = true
	d.actions = append(d.actions, Action{
		Kind: kind, Workload: w.Name, Pod: p.Name, To: to, Reason: reason,
		Reserve: Amounts{CPU: max(to.CPU-p.Has.CPU, 0), Memory: max(to.Memory-p.Has.Memory, 0)},
	})
	return true
}
