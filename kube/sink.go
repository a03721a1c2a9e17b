package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

// podSink is what the pods' reflector fills instead of a cache. It holds no pod.
type podSink struct {
	out     outlet
	parser  *parse.Parser
	watches *podWatches
}

var _ cache.TransformingStore = (*podSink)(nil)

// parsedPod is a pod of a list that is not complete yet.
type parsedPod struct {
	facts facts.Pod
	print uint64
}

func (s *podSink) parse(pod *corev1.Pod) parsedPod {
	p := parsedPod{facts: s.parser.Pod(pod)}
	p.print = s.watches.seen.Of(&p.facts, s.parser.Serial())
	return p
}

// concerns reports whether the pod matters to Hilbert. A pod of another scheduler does not until it is bound.
func concerns(f *facts.Pod) bool { return f.Ours || f.Node != "" }

// Transformer parses the pods of a streamed list as they arrive, so that the whole list is never in memory.
func (s *podSink) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return s.parse(pod), nil
		}
		return object, nil
	}
}

// Add takes in a pod that was created.
func (s *podSink) Add(object any) error { return s.upsert(object) }

// Update takes in a pod that was changed.
func (s *podSink) Update(object any) error { return s.upsert(object) }

func (s *podSink) upsert(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("pod watch: got a %T", object)
	}
	if pod.Spec.NodeName == "" && !s.parser.IsOurs(pod) {
		return nil
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	p := s.parse(pod)
	if !s.watches.seen.Changed(p.facts.UID, p.print) || s.watches.finished.Overtaken(p.facts.UID) {
		return nil
	}
	return s.out.send(facts.PodUpserted{Pod: p.facts})
}

// Delete takes in a pod that is gone, or has finished: the other watch tells.
func (s *podSink) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("pod watch: got a %T", object)
	}
	uid := facts.UID(pod.UID)
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !s.watches.seen.Forget(uid) {
		return nil
	}
	if s.watches.finished.Gone(uid) {
		return nil
	}
	return s.out.send(facts.PodRemoved{UID: uid})
}

// Replace takes in a whole list.
func (s *podSink) Replace(objects []any, _ string) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	pods := make([]facts.Pod, 0, len(objects))
	s.watches.seen.Clear()
	for _, object := range objects {
		p, ok := object.(parsedPod)
		if pod, raw := object.(*corev1.Pod); raw {
			p, ok = s.parse(pod), true
		}
		if !ok {
			return fmt.Errorf("pod list: got a %T", object)
		}
		if concerns(&p.facts) {
			s.watches.seen.Changed(p.facts.UID, p.print)
			if !s.watches.finished.Overtaken(p.facts.UID) {
				pods = append(pods, p.facts)
			}
		}
	}
	s.watches.finished.Listed()
	return s.out.send(facts.PodsListed{Pods: pods})
}

// Resync does nothing: no event is ever lost, so none is repeated.
func (s *podSink) Resync() error { return nil }
