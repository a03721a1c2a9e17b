package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/waiting"
)

// A pod that waits is taken in, or held back by package waiting because too many others of its namespace wait that are unlike it. A pod that is held back
// has a class of its own, which is no more than its facts, as that of a pod with a gate (held), and an identity of its own, which no selector is asked about.
//
// The ledger tells the Bound which classes count: those of the pods that are pending or assumed and have no private class. What is remembered of a pod that
// is held back is the class that it would have had when it was judged last, by its own doing. What has come up since, such as terms of other
// pods about it, is looked at when its turn comes; then it may turn out to be of another class, and goes back in line with that.

// refer makes the pod refer to another class (nil: none), and counts that. The terms of a gang's members act while they wait, for members are placed together.
func (s *Store) refer(pod *Pod, class *Class) {
	if pod.counted && (class == nil || class.private || class.key != pod.Class.key) {
		s.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), -1)
		pod.counted = false
	}
	s.classes.refer(pod, class)
	if class == nil {
		return
	}
	s.countWaiting(pod)
	if pod.Unit != nil {
		s.act(class.request.carries)
	}
}

// countWaiting counts the class of a pod that waits, or has a place for which it may have to wait again.
func (s *Store) countWaiting(pod *Pod) {
	waits := pod.Ours && (pod.Phase == Pending || pod.Phase == Assumed) && !pod.Class.private
	switch {
	case waits == pod.counted || s.waiting.Most() == 0:
		return
	case waits:
		s.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), 1)
	default:
		s.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), -1)
	}
	pod.counted = waits
}

// admit returns the class of a pod that wants a place, if there is one already or the pod is held back.
func (s *Store) admit(pod *Pod, r *facts.Requirements, asks needs) (class *Class, known bool) {
	s.sweep()
	if pod.identity.key == "" {
		s.selection.set(pod, s.selection.identify(pod.Namespace, pod.identity.Labels))
	}
	class, key := s.classes.find(r, pod.identity, s.selection.namespaces, asks)
	p := inLine(pod, key, weighed(r.PodTerms(), len(pod.identity.AffectedBy)))
	var from *waiting.Key
	if pod.counted {
		from = &pod.Class.key
	}
	if s.restores || s.waiting.Admits(&p, from) {
		s.waiting.Release(pod.UID)
		return class, class != nil
	}
	message, fresh := s.waiting.Hold(&p)
	s.selection.set(pod, &identity{Subject: pod.identity.Subject})
	if fresh {
		for _, member := range pod.Unit.pods {
			if member.counted {
				s.selection.recheck = append(s.selection.recheck, member)
			}
		}
	}
	old := pod.Class
	if old != nil && old.HeldBack == message && old.request.Requirements == pod.requirements {
		return old, true
	}
	r = pod.requirements
	return &Class{Requirements: r, request: &request{Requirements: r}, private: true, HeldBack: message}, true
}

// inLine is what package waiting knows of a pod.
func inLine(pod *Pod, key waiting.Key, terms int) waiting.Pod {
	p := waiting.Pod{UID: pod.UID, Namespace: pod.Namespace, Created: pod.Created, Class: key, Terms: terms}
	if pod.Unit != nil {
		p.Gang = pod.Unit.Name
	}
	return p
}

// takeIn takes in the pods for which there is room. What one brings may be about others, which are then judged again: terms are forgotten only
// afterwards, so that this ends.
func (s *Store) takeIn() {
	if !s.waiting.Due() {
		return
	}
	s.sweep()
	s.takesIn = true
	for list := s.waiting.Next(); list != nil; list = s.waiting.Next() {
		for _, uid := range list {
			s.selection.recheck = append(s.selection.recheck, s.pods.byUID[uid])
		}
		s.recheckPods()
	}
	s.takesIn = false
}

// listed are the pods of a list in the order in which they are taken in: where more wait than may differ, the oldest come first.
func (s *Store) listed(pods []facts.Pod) []*facts.Pod {
	list := pointers(pods)
	most := s.waiting.Most()
	if most == 0 || len(list) <= most {
		return list
	}
	waits := func(p *facts.Pod) bool { return p.Ours && p.Node == "" && !p.Finished }
	var byAge []*facts.Pod
	for _, p := range list {
		if waits(p) {
			byAge = append(byAge, p)
		}
	}
	if len(byAge) <= most {
		return list
	}
	slices.SortStableFunc(byAge, func(a, b *facts.Pod) int { return cmp.Compare(a.Created, b.Created) })
	for i, next := 0, 0; i < len(list); i++ {
		if waits(list[i]) {
			list[i] = byAge[next]
			next++
		}
	}
	return list
}

// waiting counts anew which classes wait, and which pods are held back.
func (a *audit) waiting() error {
	var taken, back []waiting.Pod
	for _, pod := range a.s.pods.byUID {
		waits := pod.Ours && (pod.Phase == Pending || pod.Phase == Assumed)
		switch {
		case pod.counted != (waits && !pod.Class.private && a.s.waiting.Most() > 0):
			return fmt.Errorf("pod %s waits: %v, has a class that counts: %v, and counts: %v", pod.UID, waits, !pod.Class.private, pod.counted)
		case pod.counted:
			taken = append(taken, inLine(pod, pod.Class.key, pod.Class.weighed()))
		case pod.Class.HeldBack != "":
			class, terms := a.s.waiting.ClassOf(pod.UID)
			back = append(back, inLine(pod, class, terms))
			if pod.identity.key != "" || !waits || pod.mustWait() || pod.Schedulable() {
				return fmt.Errorf("pod %s is held back, and waits: %v, must wait: %v, may be placed: %v", pod.UID, waits, pod.mustWait(), pod.Schedulable())
			}
		}
	}
	return a.s.waiting.Verify(taken, back)
}
