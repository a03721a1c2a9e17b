package evict

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// Step decides what is to be done at one tick. It changes the Memory and keeps nothing of the Observation; the Params have been validated.
func Step(o *Observation, p *Params, m *Memory) Decision {
	s := step{view: view{o: o, p: p}, m: m, d: Decision{DryRun: p.DryRun}}
	s.at = m.advance(o.At, p)
	m.Floored.run(o.Suppression >= advise.SuppressFloor, s.at)
	if m.Floored.On {
		s.floored = (s.at - m.Floored.From).Seconds()
	}
	s.settle()
	s.detect()
	s.release()
	s.notePassing()
	for _, i := range s.order() {
		s.climb(&m.Watches[i])
	}
	s.tell()
	return s.d
}

// step is one call of Step.
type step struct {
	view

	m  *Memory
	d  Decision
	at time.Duration
}

// notePassing remembers the reclaimed pods that leave by themselves while there is pressure: they give something back too.
func (s *step) notePassing() {
	w := s.worst()
	if w == nil {
		return
	}
	const passing = 2 * MaxWishes // more would cover any need
	for i := range s.o.Pods {
		pod := &s.o.Pods[i]
		if !pod.Terminating || pod.Level != spec.QoSReclaimed || len(s.m.Asked) >= MaxWishes+passing || s.m.asked(pod.UID) != nil {
			continue
		}
		a := Asked{Ref: pod.Ref, For: w.Key, pod: pod}
		a.Leaving.start(s.at)
		s.m.Asked = append(s.m.Asked, a)
	}
}

func (s *step) worst() *Watch {
	if order := s.order(); len(order) > 0 {
		return &s.m.Watches[order[0]]
	}
	return nil
}

// order is the pressures that stand, the hard ones first, then by the table.
func (s *step) order() []int {
	var order []int
	for i := range s.m.Watches {
		if s.m.Watches[i].Level > None {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &s.m.Watches[i], &s.m.Watches[j]
		return cmp.Or(
			cmp.Compare(b.Level, a.Level), cmp.Compare(a.Detector, b.Detector), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.UID, b.UID),
		)
	})
	return order
}

// climb does what is due about one pressure. A blind one wants nothing, so nothing is asked for.
func (s *step) climb(w *Watch) {
	row := &detectors[w.Detector]
	if !row.lends {
		s.d.NoLending = append(s.d.NoLending, NoLending{Zone: w.Zone, Reason: w.Detector})
	}
	if row.resource == memory || row.resource == zoneMemory {
		s.reclaim(w)
	}
	if w.Level == Hard {
		s.press(w)
	} else {
		s.ask(w)
	}
}

// ask is the ladder of a soft pressure: notice, and after the grace a wish, if the pod is still worth it.
func (s *step) ask(w *Watch) {
	l := &s.p.Ladder
	if s.at-w.Since < l.NoticeAfter || w.want() == 0 {
		return
	}
	a, missing := s.noticed(w), w.want()-s.pending(w, true)
	switch {
	case missing <= 0:
		if a != nil { // others will be enough
			s.forget(a)
		}
	case a == nil:
		if missing > s.warned(w) {
			s.notice(w)
		}
	case !a.Noticed.ran(s.at, l.NoticeGrace) || !s.m.Wished.free(s.at, l.WishInterval):
	case s.worth(w, a):
		s.wish(w, a)
	default:
		s.forget(a)
		s.notice(w)
	}
}

// warned is what pods would give back that have notice for another reason.
func (s *step) warned(w *Watch) (sum float64) {
	for i := range s.m.Asked {
		if a := &s.m.Asked[i]; a.Noticed.On && a.free() && !a.Withdrawn.On && (w.UID == "" || w.UID == a.UID) {
			sum += a.gainFor(w)
		}
	}
	return sum
}

// noticed is the pod that has notice because of a pressure.
func (s *step) noticed(w *Watch) *Asked {
	for i := range s.m.Asked {
		if a := &s.m.Asked[i]; a.For == w.Key && a.Noticed.On && a.free() {
			return a
		}
	}
	return nil
}

// worth says whether a pod would still give something back, and takes down what.
func (s *step) worth(w *Watch, a *Asked) bool {
	c, ok := s.candidate(w, a.pod)
	if ok {
		a.Gain = c.gain
	}
	return ok
}

func (s *step) forget(a *Asked) {
	s.m.Asked = slices.DeleteFunc(s.m.Asked, func(b Asked) bool { return b.UID == a.UID })
}

// begin makes an entry for the first of the victims that may be asked; nil: there is none, or too many stand. Pods that have notice for
// another reason are taken only where it is urgent.
func (s *step) begin(w *Watch, urgent bool) *Asked {
	c := s.choose(w, func(pod *Pod) bool {
		a := s.m.asked(pod.UID)
		return !pod.Terminating && (a == nil || a.free() && (urgent || a.Withdrawn.On))
	})
	if c.pod == nil {
		return nil
	}
	if a := s.m.asked(c.pod.UID); a != nil {
		s.forget(a)
	}
	standing := 0
	for i := range s.m.Asked {
		if a := &s.m.Asked[i]; !a.Leaving.On && !a.Withdrawn.On {
			standing++
		}
	}
	if standing >= MaxWishes {
		s.m.Counts.Crowded++
		return nil
	}
	return s.enter(w, c)
}

func (s *step) enter(w *Watch, c candidate) *Asked {
	s.m.Asked = append(s.m.Asked, Asked{Ref: c.pod.Ref, For: w.Key, Gain: c.gain, Message: s.message(w), pod: c.pod})
	return &s.m.Asked[len(s.m.Asked)-1]
}

func (s *step) notice(w *Watch) {
	if a := s.begin(w, false); a != nil {
		a.Noticed.start(s.at)
		s.m.Counts.Notices[w.Detector]++
	}
}

func (s *step) wish(w *Watch, a *Asked) {
	a.Wished.start(s.at)
	a.Message = s.message(w)
	s.m.Wished.start(s.at)
	s.m.Counts.Wishes[w.Detector]++
}

// press is the ladder of a hard pressure: an urgent wish without notice, and where the API does not help, a stop.
func (s *step) press(w *Watch) {
	l := &s.p.Ladder
	need := w.want()
	if need == 0 {
		w.Due = Timer{}
	}
	if need == 0 || s.at-w.HardSince < l.UrgentAfter {
		return
	}
	if need > s.pending(w, false) && !w.Due.On {
		w.Due.start(s.at)
	}
	s.hasten(w)
	if need > s.pending(w, true) && s.m.Urgent.free(s.at, l.UrgentInterval) {
		a := s.noticed(w)
		if a == nil || !s.worth(w, a) {
			a = s.begin(w, true)
		}
		if a != nil {
			s.wish(w, a)
			s.m.Urgent.start(s.at)
		}
	}
	why := s.silence(w)
	if why == NotSilent || !s.m.Stopped.free(s.at, l.StopInterval) || need <= s.pending(w, why == WishRefused) {
		return
	}
	s.stop(w, why)
}

// hasten takes wishes over that a hard pressure counts on and that stand for a soft one: the cluster's budget would hold them back.
func (s *step) hasten(w *Watch) {
	missing := w.want() - s.pending(w, false)
	for i := range s.m.Asked {
		a := &s.m.Asked[i]
		if s.counts(a, false) || !s.counts(a, true) || w.UID != "" && w.UID != a.UID {
			continue
		}
		gain := a.gainFor(w)
		if b := s.m.watch(a.For); missing > 0 && gain > 0 && (b == nil || b.Level < Hard) {
			a.For, a.Gain, a.Message = w.Key, gain, s.message(w)
		}
		missing -= gain
	}
}

// silence says why the API is not waited for.
func (s *step) silence(w *Watch) Silence {
	l := &s.p.Ladder
	switch {
	case s.o.API.Unreachable && s.at-min(s.o.API.Since, s.at) >= l.UnreachableFor:
		return APIUnreachable
	case w.Due.ran(s.at, l.AnswerWithin):
		return WishUnanswered
	}
	for i := range s.m.Asked {
		if a := &s.m.Asked[i]; a.wish() && a.For == w.Key && a.Refused.ran(s.at, l.RefusedFor) {
			return WishRefused
		}
	}
	return NotSilent
}

// stop takes the first of the victims here and now.
func (s *step) stop(w *Watch, why Silence) {
	c := s.doomed(w)
	if c.pod == nil {
		return
	}
	a := s.m.asked(c.pod.UID)
	if a == nil {
		a = s.enter(w, c)
	}
	if a.free() { // it must go elsewhere, or it would be started here again
		a.Withdrawn = Timer{}
		s.wish(w, a)
	}
	a.For = w.Key
	a.Stopped.start(s.at)
	s.m.Stopped.start(s.at)
	s.m.Counts.Stops[w.Detector]++
	s.close(w.Detector, c.pod.Ref, "stopped")
	s.d.Stop = &Stop{Pod: c.pod.Ref, Reason: w.Detector, Why: why, Message: s.message(w)}
}

// doomed is the pod that is stopped first: one that should have left long ago before all others, and one that was stopped before, and is here
// again, after all others.
func (s *step) doomed(w *Watch) candidate {
	l := &s.p.Ladder
	overdue := func(pod *Pod, a *Asked) bool {
		return pod.Terminating && a != nil && a.Leaving.ran(s.at, l.LeaveWithin)
	}
	for _, may := range []func(pod *Pod, a *Asked) bool{
		func(pod *Pod, a *Asked) bool { return overdue(pod, a) && !a.Stopped.On },
		func(pod *Pod, a *Asked) bool { return !pod.Terminating && (a == nil || !a.Stopped.On) },
		func(pod *Pod, a *Asked) bool {
			return (overdue(pod, a) || !pod.Terminating) && a.Stopped.free(s.at, l.StopWithin)
		},
	} {
		if c := s.choose(w, func(pod *Pod) bool { return may(pod, s.m.asked(pod.UID)) }); c.pod != nil {
			return c
		}
	}
	return candidate{}
}

// reclaim orders memory to be taken from the victims, the first most, up to what is needed.
func (s *step) reclaim(w *Watch) {
	l := &s.p.Ladder
	for i := range s.m.Watches { // another detector may want the same
		b := &s.m.Watches[i]
		if b.Zone == w.Zone && b.UID == w.UID && !b.Reclaimed.free(s.at, l.ReclaimInterval) {
			return
		}
	}
	need := w.now.soft.want()
	if need > 0 {
		need = max(need, w.now.reclaim)
	}
	var from []candidate
	for i := range s.o.Pods {
		pod := &s.o.Pods[i]
		if a := s.m.asked(pod.UID); pod.Terminating || a != nil && a.Stopped.On {
			continue
		}
		if c, ok := s.candidate(w, pod); ok {
			from = append(from, c)
		}
	}
	slices.SortFunc(from, compareCandidates)
	for _, c := range from[:min(len(from), MaxWishes)] {
		held := c.gain
		if all, ok := value(c.pod.Memory); ok && detectors[w.Detector].resource == memory {
			held = all // page cache can be had more easily than the rest
		}
		part := min(held*l.ReclaimShare, need)
		if part < 1 {
			break
		}
		need -= part
		s.d.Reclaims = append(s.d.Reclaims, Reclaim{Pod: c.pod.Ref, Bytes: int64(part), Zone: w.Zone, Reason: w.Detector})
		s.m.Counts.Reclaims[w.Detector]++
		s.m.Counts.ReclaimBytes += int64(part)
		w.Reclaimed.start(s.at)
	}
}

func (s *step) message(w *Watch) string {
	return detectors[w.Detector].say(&s.view, w.index, &w.now)
}

// tell writes down what stands.
func (s *step) tell() {
	for _, i := range s.order() {
		s.d.Pressures = append(s.d.Pressures, s.pressure(&s.m.Watches[i]))
	}
	for i := range s.m.Asked {
		a := &s.m.Asked[i]
		if a.Noticed.On && !a.Wished.On && a.free() {
			s.d.Notices = append(s.d.Notices, Notice{
				Pod: a.Ref, Reason: a.For.Detector, Since: a.Noticed.From, Due: a.Noticed.From + s.p.Ladder.NoticeGrace, Message: a.Message,
			})
		}
	}
	s.tellWishes()
	s.d.Closed = s.m.Closed.told(s.at)
	for i := range s.m.Asked {
		s.m.Asked[i].pod = nil // nothing of the Observation is kept
	}
}

// tellWishes names the pods that are wished away and needed now: one that was stopped, and of the others as many as give back what those that
// leave do not.
func (s *step) tellWishes() {
	for i := range s.m.Asked {
		a := &s.m.Asked[i]
		w := s.m.watch(a.For)
		a.Urgent = w != nil && w.Level == Hard
		if !a.wish() || !a.Stopped.On && !s.needed(w, i) {
			continue
		}
		s.d.Wishes = append(s.d.Wishes, spec.EvictionWish{
			Namespace: a.Namespace, Name: a.Name, UID: a.UID, Reason: a.For.Detector.String(), Message: a.Message, Urgent: a.Urgent,
		})
	}
	slices.SortStableFunc(s.d.Wishes, func(a, b spec.EvictionWish) int {
		switch {
		case a.Urgent == b.Urgent:
			return 0
		case a.Urgent:
			return -1
		default:
			return 1
		}
	})
	s.d.Wishes = s.d.Wishes[:min(len(s.d.Wishes), MaxWishes)]
}

// needed says whether what a pressure wants is more than what leaves anyway and the wishes before this one.
func (s *step) needed(w *Watch, wish int) bool {
	if w == nil {
		return false
	}
	before := s.pending(w, false)
	for i := range s.m.Asked[:wish] {
		if a := &s.m.Asked[i]; !s.counts(a, false) && s.counts(a, true) {
			before += a.gainFor(w)
		}
	}
	return w.want() > before
}

func (s *step) pressure(w *Watch) Pressure {
	p := Pressure{Detector: w.Detector, Level: w.Level, Zone: w.Zone, Since: w.Since, Blind: w.Blind.On}
	if w.Pod != nil {
		pod := *w.Pod
		p.Pod = &pod
	}
	if w.Level == Hard {
		p.Since = w.HardSince
	}
	if w.Blind.On {
		p.Message = "not known now"
		return p
	}
	p.Need, p.Pending, p.Message = w.want(), s.pending(w, true), s.message(w)
	p.Unmeasured = s.unmeasured(w)
	return p
}

// unmeasured is of how many reclaimed pods it is not known what they would give back.
func (s *step) unmeasured(w *Watch) (n int) {
	for i := range s.o.Pods {
		pod := &s.o.Pods[i]
		if pod.Level != spec.QoSReclaimed || pod.Terminating || w.UID != "" && w.UID != pod.UID {
			continue
		}
		if _, ok := value(detectors[w.Detector].resource.gain(pod, w.Zone)); !ok {
			n++
		}
	}
	return n
}
