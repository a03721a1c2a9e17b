package migrate

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// system is a scheduler, or what stands beside one, whose words are rewritten.
type system struct {
	// name as findings and docs/migrate have it.
	name string
	// schedulers are the values of spec.schedulerName that are its own.
	schedulers []string
	// prefixes of the labels, annotations and resources that are its own; an entry with no "/" at its end is one key.
	prefixes []string
	// kept are prefixes of those that stay, because the system goes on beside Hilbert.
	kept []string
	// groups of its API, and what becomes of their kinds. A kind that is not listed is unknown.
	groups []string
	kinds  map[string]func(*run, subject) (instead []*yaml.Node, replaced bool)
	// pod rewrites a pod; named says that the pod names one of its schedulers. nil: it has no words for pods.
	pod func(p *pod, named bool)
}

func (s *system) owns(key string) bool { return matches(s.prefixes, key) }

func (s *system) keeps(key string) bool { return matches(s.kept, key) }

func matches(prefixes []string, key string) bool {
	for _, p := range prefixes {
		if p == key || strings.HasSuffix(p, "/") && strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// systems are tried in this order.
func systems() []system {
	return []system{koordinator(), katalyst(), volcano(), kueue(), hami(), yunikorn(), kai()}
}

// stays leaves an object as it is, because its system goes on beside Hilbert.
func stays(system, message string) func(*run, subject) ([]*yaml.Node, bool) {
	return func(r *run, s subject) ([]*yaml.Node, bool) {
		r.add(Finding{Outcome: Kept, Object: s.String(), Line: s.line("kind"), System: system, Word: "kind: " + s.kind, Message: message})
		return nil, false
	}
}
