package intake

import "maps"

// judgedPerEvent is how many pods that are judged anew cost as much as an event does.
const judgedPerEvent = 8

// maxOthers is how many namespaces that have nothing here any more may be remembered beside those that have.
const maxOthers = 64

// shares lets the namespaces that have pods waiting here cost the scheduler as much as each other: one whose event was dear is passed over until each of the others has
// cost as much. It is start-time fair queuing: now is the cost up to which each of them has been served, and until is where a namespace stands that is beyond it.
//
// For example, a and b have a thousand events each. Each of a's has 20,000 pods judged anew, and costs 2,501. After the first one, all thousand of b come, and then a's second.
type shares struct {
	now   int64
	until map[string]int64
	last  string // whose event was taken last; empty: nobody's
}

// due reports whether it may be a namespace's turn.
func (s *shares) due(namespace string) bool { return s.until[namespace] <= s.now }

// advance goes on to where one of the namespaces is due. What it says of others that are due by then is forgotten once it is much.
func (s *shares) advance(namespaces []string) {
	for i, name := range namespaces {
		if until := s.until[name]; i == 0 || until < s.now {
			s.now = until
		}
	}
	if len(s.until) > 2*len(namespaces)+maxOthers {
		maps.DeleteFunc(s.until, func(_ string, until int64) bool { return until <= s.now })
	}
}

// take charges a namespace for an event.
func (s *shares) take(namespace string) {
	s.last = namespace
	if s.until == nil {
		s.until = make(map[string]int64)
	}
	s.until[namespace] = max(s.until[namespace], s.now) + 1
}

// Judged says how many pods were judged anew because of the event that was taken last. Terms of one pod can be about all pods of the cluster.
func (e *Events) Judged(pods int) {
	if s := &e.fair; s.last != "" {
		s.until[s.last] += int64(pods / judgedPerEvent)
	}
}
