package evict

import (
	"cmp"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Victim is a pod that has notice, was asked for, was stopped, or leaves while there is pressure.
type Victim struct {
	spec.PodRef
	// For is the pressure that it was asked for, or left during.
	For Key `json:"for"`
	// Gain is what it was to give back when it was asked for.
	Gain    float64 `json:"gain"`
	Message string  `json:"message"`
	// Noticed, Requested, Stopped and Leaving run since these things happened; Refused since the API side refused the request.
	Noticed   Timer `json:"noticed"`
	Requested Timer `json:"requested"`
	Stopped   Timer `json:"stopped"`
	Leaving   Timer `json:"leaving"`
	Refused   Timer `json:"refused"`
	// Withdrawn runs since the request was taken back: it may have been followed at that moment.
	Withdrawn Timer `json:"withdrawn"`
	Urgent    bool  `json:"urgent,omitempty"`

	pod *Pod // at this tick; nil: it is gone
}

func (a *Victim) shift(d time.Duration) {
	for _, t := range []*Timer{&a.Noticed, &a.Requested, &a.Stopped, &a.Leaving, &a.Refused, &a.Withdrawn} {
		t.shift(d)
	}
}

// requested says whether the pod has its eviction requested now.
func (a *Victim) requested() bool { return a.Requested.On && !a.Leaving.On && !a.Withdrawn.On }

// free says whether the pod may be asked: it has notice at most, or was asked and is not any more.
func (a *Victim) free() bool { return !a.requested() && !a.Leaving.On }

// gainFor is what the pod will give back of what a pressure is about. What is not known any more is what it was.
func (a *Victim) gainFor(w *Watch) float64 {
	r := detectors[w.Detector].resource
	if r == help {
		return w.help(a.UID).Value // a pod that is not named does not help
	}
	if gain, ok := value(r.gain(a.pod, w.NUMANode)); ok {
		return gain
	}
	if detectors[a.For.Detector].resource == r && a.For.NUMANode == w.NUMANode {
		return a.Gain
	}
	return 0
}

// candidate is a pod that may be chosen, and what it would give back.
type candidate struct {
	pod  *Pod
	gain float64
	// fresh: it started so lately that it may be here because another node evicted it.
	fresh bool
}

// compareCandidates orders victims: the lowest priority first, then pods that have run for a while, then those that give back most, then the youngest, then by
// UID. Without the second a large pod would be sent from node to node while all are short, and never get anything done. There is no order by level,
// for only one level may be chosen.
func compareCandidates(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.pod.Priority, b.pod.Priority),
		compareBool(a.fresh, b.fresh),
		cmp.Compare(b.gain, a.gain),
		cmp.Compare(b.pod.Started, a.pod.Started),
		cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

// compareBool has false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// candidate says whether a pod may be a victim for a pressure: it is reclaimed, and known to have something worth taking.
func (s *step) candidate(w *Watch, pod *Pod) (candidate, bool) {
	row := &detectors[w.Detector]
	if pod.Level != spec.QoSReclaimed || pod.UID == "" || w.UID != "" && w.UID != pod.UID {
		return candidate{}, false
	}
	gain, ok := value(w.gain(pod))
	if !ok || gain <= 0 || gain < row.resource.least(s.p) || row.eligible != nil && !row.eligible(&s.view, pod) {
		return candidate{}, false
	}
	return candidate{pod, gain, s.at-pod.Started < s.p.Escalation.SettleFor.D()}, true
}

// choose is the first of the victims that may be taken; nil: there is none.
func (s *step) choose(w *Watch, may func(*Pod) bool) (best candidate) {
	for i := range s.o.Pods {
		pod := &s.o.Pods[i]
		if c, ok := s.candidate(w, pod); ok && may(pod) && (best.pod == nil || compareCandidates(c, best) < 0) {
			best = c
		}
	}
	return best
}

// victim is the entry of a pod, nil where there is none.
func (m *State) victim(uid string) *Victim {
	for i := range m.Victims {
		if m.Victims[i].UID == uid {
			return &m.Victims[i]
		}
	}
	return nil
}

// pending is what pods that are leaving, were stopped, or whose eviction is requested will give back. Requests count as long as they may be followed.
func (s *step) pending(w *Watch, requests bool) (sum float64) {
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; s.counts(a, requests) && (w.UID == "" || w.UID == a.UID) {
			sum += a.gainFor(w)
		}
	}
	return sum
}

// counts says whether a pod counts as giving something back.
func (s *step) counts(a *Victim, requests bool) bool {
	l := &s.p.Escalation
	return a.Leaving.runs(s.at, l.LeaveWithin.D()) || a.Stopped.runs(s.at, l.StopWithin.D()) || requests && a.requested() && !a.Stopped.On && !a.Refused.On
}

// updateVictims looks what became of the pods that were asked for.
func (s *step) updateVictims() {
	kept := s.m.Victims[:0]
	for i := range s.m.Victims {
		if a := &s.m.Victims[i]; s.followed(a) {
			kept = append(kept, *a)
		}
	}
	clear(s.m.Victims[len(kept):])
	s.m.Victims = kept
}

// followed says whether a pod that was asked for is still there. One that leaves after a request has been evicted.
func (s *step) followed(a *Victim) bool {
	a.pod = s.pod(a.UID)
	leaves := a.pod == nil || a.pod.Terminating
	if a.Leaving.On && leaves {
		return a.pod != nil
	}
	if leaves {
		if a.Requested.On && !s.p.DryRun {
			s.m.Counts.Evicted[a.For.Detector]++
			s.close(a.For.Detector, a.PodRef, "evicted")
			if w := s.m.watch(a.For); w != nil && !a.Stopped.On {
				w.Due.start(s.at)
			}
		}
		a.Leaving.start(s.at)
		a.Noticed = Timer{}
		return a.pod != nil
	}
	a.Leaving = Timer{}
	if a.Withdrawn.ran(s.at, s.p.Escalation.LeaveWithin.D()) {
		return false
	}
	var refused *Answer
	for i := range s.o.API.Answers {
		if r := &s.o.API.Answers[i]; r.UID == a.UID && r.State == Refused {
			refused = r
		}
	}
	// What was refused before we asked is no answer to us.
	if refused != nil && !a.Refused.On && a.Requested.On {
		a.Refused.start(min(max(refused.Since, a.Requested.From), s.at))
	} else if refused == nil {
		a.Refused = Timer{}
	}
	return true
}

func (s *step) pod(uid string) *Pod {
	for i := range s.o.Pods {
		if s.o.Pods[i].UID == uid {
			return &s.o.Pods[i]
		}
	}
	return nil
}

// close closes the node because of what was done to a pod, unless it was not done.
func (s *step) close(d Detector, pod spec.PodRef, done string) {
	if s.p.DryRun {
		return
	}
	s.m.Closed.evicted(s.at, &s.p.Close, d.String()+": "+pod.String()+" was "+done)
	s.m.Counts.Closings++
}

// releaseVictims takes back what was asked for because of a pressure that is over, unless another one wants the same pod.
func (s *step) releaseVictims() {
	kept := s.m.Victims[:0]
	for i := range s.m.Victims {
		a := &s.m.Victims[i]
		w := s.m.watch(a.For)
		if w != nil && w.Level > None && !a.Withdrawn.On || s.adopted(a) || s.keepWithoutPressure(a) {
			kept = append(kept, *a)
		}
	}
	clear(s.m.Victims[len(kept):])
	s.m.Victims = kept
}

// adopted gives the pod to another pressure that would choose it, and needs it.
func (s *step) adopted(a *Victim) bool {
	if a.Withdrawn.On {
		return false
	}
	for i := range s.m.Watches {
		w := &s.m.Watches[i]
		c, ok := s.candidate(w, a.pod)
		if !ok {
			continue
		}
		others := s.pending(w, true)
		if s.counts(a, true) {
			others -= c.gain
		}
		// A request that passes to a detector with a bound per hour counts there.
		if w.want() > others && (!a.requested() || s.mayGrant(w)) {
			if a.requested() {
				s.grant(w)
			}
			a.For, a.Gain = w.Key, c.gain
			return true
		}
	}
	return false
}

// keepWithoutPressure says whether the pod is remembered without a pressure. One that was stopped keeps its eviction request, or the kubelet would start it here
// again; any other request is withdrawn, and remembered because it may be followed nevertheless.
func (s *step) keepWithoutPressure(a *Victim) bool {
	switch {
	case a.Withdrawn.On:
		return true
	case a.Leaving.On || !a.Requested.On:
		return false
	case !a.Stopped.runs(s.at, s.p.Escalation.KeepStopped.D()):
		s.m.Counts.Withdrawn[a.For.Detector]++
		a.Withdrawn.start(s.at)
	}
	return true
}
