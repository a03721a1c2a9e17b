package evict

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// Step decides what is to be done at one tick. It changes the Memory and keeps nothing of the Observation; the Params have been validated.
func Step(o *Observation, p *Params, m *State) Decision {
	s := step{view: view{o: o, p: p}, m: m, d: Decision{DryRun: p.DryRun}}
	s.at = m.advance(o.At, p)
	m.Floored.run(o.Suppression >= advise.SuppressFloor, s.at)
	if m.Floored.On {
		s.floored = (s.at - m.Floored.From).Seconds()
	}
	s.updateVictims()
	s.detect()
	s.releaseVictims()
	s.noteLeaving()
	for _, i := range s.order() {
		s.escalate(&m.Watches[i])
	}
	s.report()
	return s.d
}

// step is one call of Step.
type step struct {
	view

	m  *State
	d  Decision
	at time.Duration
}

// noteLeaving remembers the reclaimed pods that leave by themselves while there is pressure: they give something back too.
func (s *step) noteLeaving() {
	w := s.worst()
	if w == nil {
		return
	}
	const passing = 2 * MaxRequests // more would cover any need
	for i := range s.o.Pods {
		pod := &s.o.Pods[i]
		if !pod.Terminating || pod.Level != spec.QoSReclaimed || len(s.m.Victims) >= MaxRequests+passing || s.m.victim(pod.UID) != nil {
			continue
		}
		a := Victim{PodRef: pod.PodRef, For: w.Key, pod: pod}
		a.Leaving.start(s.at)
		s.m.Victims = append(s.m.Victims, a)
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
			cmp.Compare(b.Level, a.Level), cmp.Compare(a.Detector, b.Detector), cmp.Compare(a.NUMANode, b.NUMANode), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Finding, b.Finding),
		)
	})
	return order
}

// escalate does what is due about one pressure. A blind one wants nothing, so nothing is asked for.
func (s *step) escalate(w *Watch) {
	row := &detectors[w.Detector]
	if !row.lends {
		s.d.NoLending = append(s.d.NoLending, NoLending{NUMANode: w.NUMANode, Reason: w.Detector})
	}
	if row.resource == memory || row.resource == numaMemory {
		s.reclaim(w)
	}
	if w.Level == Hard {
		s.escalateHard(w)
	} else {
		s.escalateSoft(w)
	}
}

// escalateSoft is the escalation of a soft pressure: notice, and after the grace a request, if the pod is still worth it.
func (s *step) escalateSoft(w *Watch) {
	l := &s.p.Escalation
	if s.at-w.Since < l.NoticeAfter.D() || w.want() == 0 {
		return
	}
	a, missing := s.noticed(w), w.want()-s.pending(w, true)
	switch {
	case missing <= 0:
		if a != nil { // others will be enough
			s.forget(a)
		}
	case a == nil:
		if missing > s.noticedGain(w) {
			s.notice(w)
		}
	case !a.Noticed.ran(s.at, l.NoticeGrace.D()) || !s.m.Requested.free(s.at, l.RequestInterval.D()) || !s.mayGrant(w):
	case s.stillWorth(w, a):
		s.request(w, a)
	default:
		s.forget(a)
		s.notice(w)
	}
}

// noticedGain is what pods would give back that have notice for another reason.
func (s *step) noticedGain(w *Watch) (sum float64) {
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; a.Noticed.On && a.free() && !a.Withdrawn.On && (w.UID == "" || w.UID == a.UID) {
			sum += a.gainFor(w)
		}
	}
	return sum
}

// noticed is the pod that has notice because of a pressure.
func (s *step) noticed(w *Watch) *Victim {
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; a.For == w.Key && a.Noticed.On && a.free() {
			return a
		}
	}
	return nil
}

// stillWorth says whether a pod would still give something back, and takes down what.
func (s *step) stillWorth(w *Watch, a *Victim) bool {
	c, ok := s.candidate(w, a.pod)
	if ok {
		a.Gain = c.gain
	}
	return ok
}

func (s *step) forget(a *Victim) {
	s.m.Victims = slices.DeleteFunc(s.m.Victims, func(b Victim) bool { return b.UID == a.UID })
}

// selectVictim makes an entry for the first of the victims that may be asked; nil: there is none, or too many stand. Pods that have notice for
// another reason are taken only where it is urgent.
func (s *step) selectVictim(w *Watch, urgent bool) *Victim {
	c := s.choose(w, func(pod *Pod) bool {
		a := s.m.victim(pod.UID)
		return !pod.Terminating && (a == nil || a.free() && (urgent || a.Withdrawn.On))
	})
	if c.pod == nil {
		return nil
	}
	if a := s.m.victim(c.pod.UID); a != nil {
		s.forget(a)
	}
	standing := 0
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; !a.Leaving.On && !a.Withdrawn.On {
			standing++
		}
	}
	if standing >= MaxRequests {
		s.m.Counts.Crowded++
		return nil
	}
	return s.addVictim(w, c)
}

func (s *step) addVictim(w *Watch, c candidate) *Victim {
	s.m.Victims = append(s.m.Victims, Victim{PodRef: c.pod.PodRef, For: w.Key, Gain: c.gain, Message: s.message(w), pod: c.pod})
	return &s.m.Victims[len(s.m.Victims)-1]
}

func (s *step) notice(w *Watch) {
	if a := s.selectVictim(w, false); a != nil {
		a.Noticed.start(s.at)
		s.m.Counts.Notices[w.Detector]++
	}
}

func (s *step) request(w *Watch, a *Victim) {
	a.Requested.start(s.at)
	a.Message = s.message(w)
	s.grant(w)
	s.m.Requested.start(s.at)
	s.m.Counts.Requests[w.Detector]++
}

// escalateHard is the escalation of a hard pressure: an urgent request without notice, and where the API does not help, a stop.
func (s *step) escalateHard(w *Watch) {
	l := &s.p.Escalation
	need := w.want()
	if need == 0 {
		w.Due = Timer{}
	}
	if need == 0 || s.at-w.HardSince < l.UrgentAfter.D() {
		return
	}
	if need > s.pending(w, false) && !w.Due.On {
		w.Due.start(s.at)
	}
	s.takeOver(w)
	if need > s.pending(w, true) && s.m.Urgent.free(s.at, l.UrgentInterval.D()) {
		a := s.noticed(w)
		if a == nil || !s.stillWorth(w, a) {
			a = s.selectVictim(w, true)
		}
		if a != nil {
			s.request(w, a)
			s.m.Urgent.start(s.at)
		}
	}
	why := s.stopReason(w)
	if why == NoStop || !s.m.Stopped.free(s.at, l.StopInterval.D()) || need <= s.pending(w, why == RequestRefused) {
		return
	}
	s.stop(w, why)
}

// takeOver makes requests of a soft pressure urgent if a hard pressure counts on them, because the cluster's budget would delay them.
func (s *step) takeOver(w *Watch) {
	missing := w.want() - s.pending(w, false)
	for i := range s.m.Victims {
		a := &s.m.Victims[i]
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

// stopReason says why the API is not waited for.
func (s *step) stopReason(w *Watch) StopReason {
	l := &s.p.Escalation
	switch {
	case s.o.API.Unreachable && s.at-min(s.o.API.Since, s.at) >= l.UnreachableFor.D():
		return APIUnreachable
	case w.Due.ran(s.at, l.AnswerWithin.D()):
		return RequestUnanswered
	}
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; a.requested() && a.For == w.Key && a.Refused.ran(s.at, l.RefusedFor.D()) {
			return RequestRefused
		}
	}
	return NoStop
}

// stop takes the first of the victims here and now.
func (s *step) stop(w *Watch, why StopReason) {
	c := s.nextToStop(w)
	if c.pod == nil {
		return
	}
	a := s.m.victim(c.pod.UID)
	if a == nil {
		a = s.addVictim(w, c)
	}
	if a.free() { // it must go elsewhere, or it would be started here again
		a.Withdrawn = Timer{}
		s.request(w, a)
	}
	a.For = w.Key
	a.Stopped.start(s.at)
	s.m.Stopped.start(s.at)
	s.m.Counts.Stops[w.Detector]++
	s.close(w.Detector, c.pod.PodRef, "stopped")
	s.d.Stop = &Stop{Pod: c.pod.PodRef, Reason: w.Detector, Why: why, Message: s.message(w)}
}

// nextToStop is the pod that is stopped first: one that should have left long ago before all others, and one that was stopped before, and is here
// again, after all others.
func (s *step) nextToStop(w *Watch) candidate {
	l := &s.p.Escalation
	overdue := func(pod *Pod, a *Victim) bool {
		return pod.Terminating && a != nil && a.Leaving.ran(s.at, l.LeaveWithin.D())
	}
	for _, may := range []func(pod *Pod, a *Victim) bool{
		func(pod *Pod, a *Victim) bool { return overdue(pod, a) && !a.Stopped.On },
		func(pod *Pod, a *Victim) bool { return !pod.Terminating && (a == nil || !a.Stopped.On) },
		func(pod *Pod, a *Victim) bool {
			return (overdue(pod, a) || !pod.Terminating) && a.Stopped.free(s.at, l.StopWithin.D())
		},
	} {
		if c := s.choose(w, func(pod *Pod) bool { return may(pod, s.m.victim(pod.UID)) }); c.pod != nil {
			return c
		}
	}
	return candidate{}
}

// reclaim orders memory to be taken from the victims, the first most, up to what is needed.
func (s *step) reclaim(w *Watch) {
	l := &s.p.Escalation
	for i := range s.m.Watches { // another detector may want the same
		b := &s.m.Watches[i]
		if b.NUMANode == w.NUMANode && b.UID == w.UID && !b.Reclaimed.free(s.at, l.ReclaimInterval.D()) {
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
		if a := s.m.victim(pod.UID); pod.Terminating || a != nil && a.Stopped.On {
			continue
		}
		if c, ok := s.candidate(w, pod); ok {
			from = append(from, c)
		}
	}
	slices.SortFunc(from, compareCandidates)
	for _, c := range from[:min(len(from), MaxRequests)] {
		held := c.gain
		if all, ok := value(c.pod.Memory); ok && detectors[w.Detector].resource == memory {
			held = all // page cache can be had more easily than the rest
		}
		part := min(held*l.ReclaimShare, need)
		if part < 1 {
			break
		}
		need -= part
		s.d.Reclaims = append(s.d.Reclaims, Reclaim{Pod: c.pod.PodRef, Bytes: int64(part), NUMANode: w.NUMANode, Reason: w.Detector})
		s.m.Counts.Reclaims[w.Detector]++
		s.m.Counts.ReclaimBytes += int64(part)
		w.Reclaimed.start(s.at)
	}
}

func (s *step) message(w *Watch) string {
	return detectors[w.Detector].say(&s.view, w.index, &w.now)
}

// report writes down what stands.
func (s *step) report() {
	for _, i := range s.order() {
		s.d.Pressures = append(s.d.Pressures, s.pressure(&s.m.Watches[i]))
	}
	for i := range s.m.Victims {
		a := &s.m.Victims[i]
		if a.Noticed.On && !a.Requested.On && a.free() {
			s.d.Notices = append(s.d.Notices, Notice{
				Pod: a.PodRef, Reason: a.For.Detector, Since: a.Noticed.From, Due: a.Noticed.From + s.p.Escalation.NoticeGrace.D(), Message: a.Message,
			})
		}
	}
	s.reportRequests()
	s.d.Closed = s.m.Closed.status(s.at)
	for i := range s.m.Victims {
		s.m.Victims[i].pod = nil // nothing of the Observation is kept
	}
	for i := range s.m.Watches {
		s.m.Watches[i].named = nil
	}
}

// reportRequests names the pods whose eviction is requested and needed now: one that was stopped, and of the others as many as give back what those that
// leave do not.
func (s *step) reportRequests() {
	for i := range s.m.Victims {
		a := &s.m.Victims[i]
		w := s.m.watch(a.For)
		a.Urgent = w != nil && w.Level == Hard
		if !a.requested() || !a.Stopped.On && !s.needed(w, i) {
			continue
		}
		s.d.Requests = append(s.d.Requests, spec.EvictionRequest{
			Namespace: a.Namespace, Name: a.Name, UID: a.UID, Reason: a.For.Detector.String(), Message: a.Message, Urgent: a.Urgent,
		})
	}
	slices.SortStableFunc(s.d.Requests, func(a, b spec.EvictionRequest) int {
		switch {
		case a.Urgent == b.Urgent:
			return 0
		case a.Urgent:
			return -1
		default:
			return 1
		}
	})
	s.d.Requests = s.d.Requests[:min(len(s.d.Requests), MaxRequests)]
}

// needed says whether what a pressure wants is more than what leaves anyway and the requests before this one.
func (s *step) needed(w *Watch, index int) bool {
	if w == nil {
		return false
	}
	before := s.pending(w, false)
	for i := range s.m.Victims[:index] {
		if a := &s.m.Victims[i]; !s.counts(a, false) && s.counts(a, true) {
			before += a.gainFor(w)
		}
	}
	return w.want() > before
}

func (s *step) pressure(w *Watch) Pressure {
	p := Pressure{Detector: w.Detector, Level: w.Level, NUMANode: w.NUMANode, Since: w.Since, Blind: w.Blind.On}
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
		if _, ok := value(w.gain(pod)); !ok && w.Finding == "" {
			n++
		}
	}
	return n
}
