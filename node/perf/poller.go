package perf

import (
	"time"

	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/readings"
)

// Interval is between two readings. Each interrupts every CPU for each cgroup that runs there.
const Interval = 5 * time.Second

// Poller reads counters beside the loop that goes by them. Watch says which cgroups to count from now on, the most wanted first; none: nothing is counted.
type Poller struct {
	*readings.Poller[string, float64, Status]
}

// NewPoller returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func NewPoller(r *Reader, by clock.Clock) *Poller {
	return &Poller{readings.New(source{r}, Interval, by)}
}

// CyclesPerInstruction is what an instruction of a cgroup took at the last reading.
func (p *Poller) CyclesPerInstruction(cgroup string, now time.Time) advise.Sample {
	if cycles, known := p.Of(cgroup, now); known {
		return advise.Known(cycles)
	}
	return advise.Sample{}
}

// source is a Reader, for the Poller.
type source struct{ reader *Reader }

// Read implements readings.Source.
func (s source) Read(at time.Duration, wanted []string) (map[string]float64, Status) {
	s.reader.Read(at, wanted)
	values := make(map[string]float64, len(wanted))
	for _, cgroup := range wanted {
		if cycles, ok := s.reader.CyclesPerInstruction(cgroup); ok {
			values[cgroup] = cycles
		}
	}
	return values, s.reader.Status()
}

// Close implements readings.Source.
func (s source) Close() Status {
	s.reader.Close()
	return s.reader.Status()
}
