package kube

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/finished"
	"hilbert.dev/hilbert/kube/parse"
)

// Two watches share the pods by a field selector: those that have not finished, and those that have. The first leaves out what would be most of a
// cluster's pods after a day of Jobs, and it reports a pod that finishes as deleted. The second exists for gangs, which have to know of members that ran
// to their end. It reads only who a pod is and which unit it is a member of, and tells only of members.
//
// The two come in any order; finished.Members drops what is older.

var (
	// notFinished selects the pods that may hold something of a node.
	notFinished = fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
	// hasFinished selects the others. A selector has no "or".
	hasFinished = fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodPending)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodRunning)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodUnknown)),
	).String()
)

// podWatches is what the two watches of pods know of each other. Both hold the mutex while they take in an event and tell of it.
type podWatches struct {
	mu       sync.Mutex
	seen     parse.Fingerprints // of the pods that have not finished
	finished *finished.Members
}

func newPodWatches() *podWatches {
	w := &podWatches{seen: parse.NewFingerprints()}
	w.finished = finished.New(func(uid facts.UID) bool { return w.seen.Knows(uid) })
	return w
}

// finishedSink is what the reflector of finished pods fills.
type finishedSink struct {
	out     outlet
	parser  *parse.Parser
	watches *podWatches
}

var _ cache.TransformingStore = (*finishedSink)(nil)

// Transformer reads the pods of a streamed list as they arrive, so that the whole list is never in memory.
func (s *finishedSink) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return s.read(pod), nil
		}
		return object, nil
	}
}

// finishedPod is a finished pod of a list that is not complete yet; nil: no unit counts it.
type finishedPod *facts.Pod

func (s *finishedSink) read(pod *corev1.Pod) finishedPod {
	if f, ok := s.parser.FinishedMember(pod); ok {
		return &f
	}
	return nil
}

// Add takes in a pod that has finished.
func (s *finishedSink) Add(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watch of finished pods: got a %T", object)
	}
	f := s.read(pod)
	if f == nil {
		return nil
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !s.watches.finished.Add(f.UID) {
		return nil
	}
	return s.out.send(facts.PodUpserted{Pod: *f})
}

// Update takes in a change of a finished pod; there is none that matters.
func (s *finishedSink) Update(object any) error { return s.Add(object) }

// Delete takes in a finished pod that is deleted.
func (s *finishedSink) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watch of finished pods: got a %T", object)
	}
	uid := facts.UID(pod.UID)
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !s.watches.finished.Remove(uid) {
		return nil
	}
	return s.out.send(facts.PodRemoved{UID: uid})
}

// Replace takes in a whole list.
func (s *finishedSink) Replace(objects []any, _ string) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	var list []facts.Pod
	for _, object := range objects {
		f, ok := object.(finishedPod)
		if pod, raw := object.(*corev1.Pod); raw {
			f, ok = s.read(pod), true
		}
		if !ok {
			return fmt.Errorf("list of finished pods: got a %T", object)
		}
		if f != nil {
			list = append(list, *f)
		}
	}
	s.watches.finished.Replace(list)
	return s.out.send(facts.FinishedListed{Pods: list})
}

// Resync does nothing: no event is ever lost, so none is repeated.
func (s *finishedSink) Resync() error { return nil }
