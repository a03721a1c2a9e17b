package vpa

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/recommend"
)

// decision is a call of Decide.
type decision struct {
	s      *State
	v      *View
	budget *budget.Budget
	took   int // of it
	now    time.Time
	places places
	lends  lenders
	work   map[string]*work // by the name of the recommend.Workload
	rounds []*round
	// changedBy is the object that may change a container of a pod: the first by name of those whose targets have the pod. Two would undo what the other one does.
	changedBy map[podContainer]Key
}

type podContainer struct{ pod, container string } // by UID and name

// round is what is decided about one object.
type round struct {
	object  *Object
	state   *workload
	status  Status
	save    bool
	actions []Action
	waits   []string
	changes int
	mode    recommend.Mode
	refused string // why the mode is not what was asked for
}

// work is one container of an object, as package recommend knows it.
type work struct {
	round *round
	name  string
	known *container
	pods  map[string]*Pod // by name
}

// Decide counts what the view has, and says what to do. Objects that are not in the view are forgotten.
func (s *State) Decide(v *View, b *budget.Budget, now time.Time) []Action {
	order := make([]*Object, len(v.Objects))
	for i := range v.Objects {
		o := &v.Objects[i]
		slices.SortFunc(o.Pods, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) }) // before places point at them
		order[i] = o
	}
	d := &decision{s: s, v: v, budget: b, now: now, places: newPlaces(v), work: make(map[string]*work), changedBy: make(map[podContainer]Key)}
	d.lends = d.newLenders()
	slices.SortFunc(order, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var workloads []recommend.Workload
	beyond := tooMany(order)
	s.left = LeftOut{Objects: len(beyond)}
	for _, o := range order {
		if beyond[o] {
			o = o.beyond()
		}
		workloads = append(workloads, d.object(o)...)
	}
	d.follow(workloads)
	var out []Action
	for _, r := range d.rounds {
		out = append(out, d.finish(r)...)
	}
	out = append(out, d.places.leftover()...)
	return append(out, d.forget(order)...)
}

// tooMany are the objects beyond MaxObjects, of a list in order of names. Each namespace has its first one served before any has its second, so that none keeps the others out.
func tooMany(order []*Object) map[*Object]bool {
	if len(order) <= MaxObjects {
		return nil
	}
	type ranked struct {
		*Object
		rank int
	}
	list, count := make([]ranked, len(order)), make(map[string]int)
	for i, o := range order {
		list[i] = ranked{o, count[o.Namespace]}
		count[o.Namespace]++
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	out := make(map[*Object]bool)
	for _, r := range list[MaxObjects:] {
		out[r.Object] = true
	}
	return out
}

// left is how many pods may be disturbed now.
func (d *decision) left() int {
	if d.budget == nil {
		return 0
	}
	return min(d.budget.Left(d.now), d.s.params.AtOnce-d.took)
}

// take takes a pod that is about to be disturbed out of the budget.
func (d *decision) take() bool {
	if d.left() <= 0 || d.budget.Take(1, d.now) == 0 { // somebody else may have been faster
		return false
	}
	d.took++
	d.s.disturbed++
	return true
}

// Disturbed is how many pods were evicted, or restarted by a resize.
func (s *State) Disturbed() int { return s.disturbed }

// forget forgets objects that are gone.
func (d *decision) forget(there []*Object) (out []Action) {
	left := make(map[Key]bool, len(there))
	for _, o := range there {
		left[o.Key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(d.s.objects), func(a, b Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if !left[key] {
			out = append(out, Action{Object: key, Forget: d.s.objects[key].uid, Reason: "the VerticalPodAutoscaler is gone, or names another recommender"})
			delete(d.s.objects, key)
		}
	}
	return out
}

// object counts what is seen of an object, and returns its containers for package recommend.
func (d *decision) object(o *Object) (workloads []recommend.Workload) {
	if !o.PodsKnown && o.Problem == "" {
		return nil // nothing is decided from what is not known
	}
	d.s.left.Pods += max(len(o.Pods)-maxPods, 0)
	o.Pods = o.Pods[:min(len(o.Pods), maxPods)]
	r := &round{object: o}
	if was := d.s.objects[o.Key]; was != nil && was.uid != o.UID {
		r.actions = append(r.actions, Action{Object: o.Key, Forget: was.uid, Reason: "another VerticalPodAutoscaler has the name"})
	}
	r.state = d.s.see(o, d.now)
	r.status.Generation = o.Generation
	r.mode, r.refused = d.s.mode(o)
	d.rounds = append(d.rounds, r)
	if o.Problem != "" {
		r.set(ConfigUnsupported, true, "", o.Problem)
		r.set(RecommendationProvided, false, "", "")
		return nil
	}
	if len(o.Pods) == 0 {
		r.set(NoPodsMatched, true, NoPodsMatched, "No pods match this VPA object")
	}
	var said []string
	least := 1.0
	for _, name := range r.containers() {
		p := o.policy(name)
		if p != nil && p.Off {
			continue
		}
		k := r.state.containers[name]
		w := recommend.Workload{Name: o.String() + "/" + name, Mode: r.mode, Baseline: d.s.params.ControlGroup, Rollout: k.rollout}
		if p != nil {
			w.Policy = &p.Policy
		}
		w.Recommendation, w.Known = k.profile.Recommend(w.Policy, d.now)
		if w.Known {
			roundUp(&w.Recommendation, w.Policy)
			r.publish(name, &w)
			least = min(least, w.Recommendation.Confidence)
		}
		said = append(said, name+": "+strings.Join(w.Recommendation.Reasons, "; "))
		d.pods(r, name, k, &w)
		workloads = append(workloads, w)
	}
	r.provided(said, least, d.s.params.Rollout.Confidence)
	return workloads
}

// containers are those that are recommended for: of pods that there are, else those that there were.
func (r *round) containers() []string {
	names := make(map[string]bool)
	for i := range r.object.Pods {
		for k := range r.object.Pods[i].Containers {
			if name := r.object.Pods[i].Containers[k].Name; r.state.containers[name] != nil {
				names[name] = true
			}
		}
	}
	if len(r.object.Pods) == 0 {
		for name := range r.state.containers {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// pods gives the workload the container's pods, as far as they may be changed.
func (d *decision) pods(r *round, name string, k *container, w *recommend.Workload) {
	of := &work{round: r, name: name, known: k, pods: make(map[string]*Pod)}
	d.work[w.Name] = of
	for i := range r.object.Pods {
		p := &r.object.Pods[i]
		c := p.container(name)
		if c == nil {
			continue
		}
		if fixed := d.fixed(r, p, name); fixed != "" {
			r.wait(p.Name, fixed)
			continue
		}
		known := k.pods[p.UID]
		if known == nil {
			continue
		}
		of.pods[p.Name] = p
		out := recommend.Pod{
			Name: p.Name, Created: p.Created, Has: c.Requests, Unchanged: d.now.Sub(known.since), Throttled: known.throttled(c), Resize: p.Resize, Restarts: c.Restarts,
		}
		if known.ranOutSince() {
			out.RanOut = 1
		}
		if w.Known && r.changing() {
			var why string
			if out.Least, why = d.lends.least(p.Node, c.Requests, w.Recommendation.Target); why != "" {
				r.wait(p.Name, why)
			}
			if out.Throttled > d.s.params.Rollout.Throttled && w.Recommendation.Target.CPU < c.Requests.CPU {
				r.wait(p.Name, fmt.Sprintf("it keeps its CPU: its limit throttles it %.0f %% of the time", 100*out.Throttled))
			}
		}
		w.Pods = append(w.Pods, out)
	}
}

// fixed says why an object changes no such container of a pod; empty: it may, and no other object does.
func (d *decision) fixed(r *round, p *Pod, container string) string {
	switch {
	case !r.changing():
		return ""
	case p.Fixed != "":
		return p.Fixed
	}
	which := podContainer{p.UID, container}
	if by, taken := d.changedBy[which]; taken && by != r.object.Key {
		return "VerticalPodAutoscaler " + by.String() + " changes it"
	}
	d.changedBy[which] = r.object.Key
	return ""
}

// changing reports whether the mode changes pods.
func (r *round) changing() bool {
	return r.mode == recommend.ModeInPlace || r.mode == recommend.ModeRecreate
}

func (p *Pod) container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// mode is what may be done with a recommendation, and why not more.
func (s *State) mode(o *Object) (recommend.Mode, string) {
	update := cmp.Or(o.UpdateMode, UpdateDefault)
	if update != UpdateOff && update != UpdateInitial {
		return recommend.ModeOff, fmt.Sprintf("with updateMode %s VPA's updater changes pods past the ledger and the disturbance budget, so that no more is published than pods have; "+
			"write updatePolicy.updateMode: Off, and the mode in the annotation %s", update, spec.AnnotationRecommendationMode)
	}
	switch mode := recommend.Mode(o.Mode); mode {
	case "", recommend.ModeOff:
		return recommend.ModeOff, ""
	case recommend.ModeInitial:
		return mode, ""
	case recommend.ModeRecreate:
		if update != UpdateInitial {
			return recommend.ModeOff, "mode Recreate needs updatePolicy.updateMode: Initial, which says that new pods are to be given what is recommended"
		}
	case recommend.ModeInPlace:
	default:
		return recommend.ModeOff, fmt.Sprintf("annotation %s: %q is not known; write Off, Initial, InPlace or Recreate", spec.AnnotationRecommendationMode, o.Mode)
	}
	if !s.params.ChangePods {
		return recommend.ModeOff, fmt.Sprintf("mode %s: the controller's configuration has controller.recommendation.changePods off, so that no pod is changed", o.Mode)
	}
	return recommend.Mode(o.Mode), ""
}

// mebibyte is what memory is rounded to.
const mebibyte = 1 << 20

// roundUp makes whole millicores and mebibytes of a recommendation, within the policy's bounds.
func roundUp(r *recommend.Recommendation, p *recommend.Policy) {
	for _, a := range []*recommend.Amounts{&r.Target, &r.Lower, &r.Upper, &r.Uncapped} {
		cpu, memory := math.Ceil(a.CPU*1000)/1000, math.Ceil(a.Memory/mebibyte)*mebibyte
		if p != nil && p.Max.CPU >= a.CPU && a != &r.Uncapped {
			cpu = min(cpu, p.Max.CPU)
		}
		if p != nil && p.Max.Memory >= a.Memory && a != &r.Uncapped {
			memory = min(memory, p.Max.Memory)
		}
		*a = recommend.Amounts{CPU: cpu, Memory: memory}
	}
	r.MemoryLeast = math.Ceil(r.MemoryLeast/mebibyte) * mebibyte
}

// follow has package recommend decide about all containers at once, for they share a budget.
func (d *decision) follow(workloads []recommend.Workload) {
	view := recommend.View{Workloads: workloads, Budget: d.left(), Params: &d.s.params.Rollout, Follow: &d.s.params.Recommend}
	evicted := make(map[string]bool)
	for _, a := range recommend.Decide(&view, d.now) {
		w := d.work[a.Workload]
		if w == nil {
			continue
		}
		switch a.Kind {
		case recommend.Publish:
			w.round.hold(w.name, a.To)
		case recommend.Wait:
			if w.round.changing() {
				w.round.wait(a.Pod, a.Reason)
			}
		case recommend.Advance:
			w.known.rollout, w.round.save = *a.Rollout, true
			if a.Rollout.Stage != recommend.StageIdle || a.Rollout.Reverting != "" {
				w.round.wait("", a.Reason)
			}
		case recommend.ToResize:
			d.resize(w, &a)
		case recommend.ToEvict:
			if p := w.pods[a.Pod]; p != nil && !evicted[p.UID] && d.take() {
				evicted[p.UID] = true
				d.gaveUp(p.Node, p.container(w.name).Requests, a.To)
				w.round.do(Action{Evict: &Evict{Pod: p}, Reason: a.Reason})
			}
		}
	}
}

// do notes a change of a pod.
func (r *round) do(a Action) {
	a.Object = r.object.Key
	r.actions = append(r.actions, a)
	r.changes++
}

func (r *round) wait(pod, reason string) {
	if pod != "" {
		reason = "pod " + pod + ": " + reason
	}
	r.waits = append(r.waits, reason)
}

// finish puts an object's actions in order: what is saved comes first, the status last.
func (d *decision) finish(r *round) (out []Action) {
	if r.save || len(r.state.containers) > 0 && d.now.Sub(r.state.saved) >= d.s.params.SaveEvery {
		r.state.saved = d.now
		out = append(out, Action{Object: r.object.Key, Save: r.state.checkpoint(d.now)})
	}
	out = append(out, r.actions...)
	r.applied()
	if r.worthWriting(d.now, d.s.params.SaveEvery) {
		r.state.written = d.now
		out = append(out, Action{Object: r.object.Key, Status: &r.status})
	}
	return out
}
