package bandwidth

import (
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/readings"
)

// Interval is between two readings. Each interrupts a CPU of every domain for each group.
const Interval = 5 * time.Second

// Poller reads beside the loop that goes by it. Watch says which pods to count from now on, the most wanted first.
type Poller struct {
	*readings.Poller[Pod, Use, Status]
	source *source
}

// NewPoller returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func NewPoller(r *Reader, by clock.Clock) *Poller {
	s := &source{reader: r}
	s.groups.Store(int64(r.params.Groups))
	return &Poller{readings.New(s, Interval, by), s}
}

// Limit says how many groups may be made from the next reading on, in the place of Params.Groups. 0: none, and those that are made are removed.
func (p *Poller) Limit(groups int) { p.source.groups.Store(int64(groups)) }

// Of is the bandwidth of a pod at the last reading.
func (p *Poller) Of(uid string, now time.Time) Use {
	use, _ := p.Poller.Of(uid, now)
	return use
}

// source is a Reader, for the Poller.
type source struct {
	reader  *Reader
	groups  atomic.Int64 // as of Limit
	removed bool         // all groups are
}

// Read implements readings.Source. As long as no group may be made, it removes what is left of them, of an agent before this one too, and reads nothing.
func (s *source) Read(at time.Duration, wanted []Pod) (map[string]Use, Status) {
	groups := int(s.groups.Load())
	if s.reader.Limit(groups); groups == 0 {
		if s.removed {
			return nil, Status{}
		}
		return nil, s.Close()
	}
	s.removed = false
	s.reader.Read(at, wanted)
	uses := make(map[string]Use, len(wanted))
	for _, pod := range wanted {
		if use := s.reader.Of(pod.UID); use.Total.Known {
			uses[pod.UID] = use
		}
	}
	return uses, s.reader.Status()
}

// Close removes the groups; what cannot be removed is said by the status.
func (s *source) Close() Status {
	err := s.reader.Close()
	s.removed = err == nil
	return Status{Why: err}
}
