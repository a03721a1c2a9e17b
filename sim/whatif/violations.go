package whatif

import (
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// lasting are the filters that say where a pod belongs, not what it takes: what they refuse by now, though they allowed it once, is violated. Labels of nodes change, and other pods come and go.
var lasting = []string{"NodeAffinity", "PodTopologySpread", "InterPodAffinity"}

// violated says which rule of a pod's spec its node breaks by now, as if it were to be placed there again; empty: none.
func violated(s *cluster.Store, pod *cluster.Pod) (why string) {
	class := s.AsIfWaiting(pod)
	trial := s.Try(s.Slot(pod.Node()), true)
	trial.Take(pod) // it does not count against itself
	defer trial.End()
	for i := range rules.Filters {
		f := &rules.Filters[i]
		if !slices.Contains(lasting, f.Name) || f.Fits(&s.State, s.Slot(pod.Node()), class) {
			continue
		}
		var phrases []string
		f.Why(&s.State, s.Slot(pod.Node()), class, func(phrase string) { phrases = append(phrases, phrase) })
		return f.Name + ": " + strings.Join(phrases, ", ")
	}
	return ""
}

// welcome reports whether a pod's rules about nodes and other pods allow a node, once it has left its own.
func welcome(s *cluster.Store, pod *cluster.Pod, node cluster.Slot) bool {
	class := s.AsIfWaiting(pod)
	trial := s.Try(s.Slot(pod.Node()), true)
	trial.Take(pod)
	defer trial.End()
	for i := range rules.Filters {
		if f := &rules.Filters[i]; f.Scope != rules.Local && !f.Fits(&s.State, node, class) {
			return false
		}
	}
	return true
}
