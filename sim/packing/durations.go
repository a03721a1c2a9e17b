package packing

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// streamDurations is the stream of the seed that durations are drawn from.
const streamDurations = 1002

// ErrNoDurations says that a list has no times, and that no other list was given to draw durations from.
var ErrNoDurations = errors.New("its pods have no durations; name a list that has them, to draw from by the number of GPUs")

// leastDuration is how long a pod runs at least: the trace's times are whole seconds, so some pods begin and end in the same one.
const leastDuration = 1_000_000_000

// WithDurations gives each task that has no times a duration of the other list, drawn from the pods that ask for as many GPUs (all parts of one are
// alike), or from all pods where none does. Tasks with times keep theirs. The tasks of w are not changed.
func WithDurations(w, from *trace.Workload, seed uint64) (*trace.Workload, error) {
	byGPUs := make(map[int8][]int64)
	var all []int64
	if from != nil {
		for i := range from.Tasks {
			t := &from.Tasks[i]
			if t.Deleted != trace.Never {
				key := durationKey(t.Requirements.GPU)
				byGPUs[key] = append(byGPUs[key], t.Deleted-t.Created)
				all = append(all, t.Deleted-t.Created)
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, streamDurations))
	timed := *w
	timed.Tasks = make([]trace.Task, len(w.Tasks))
	for i := range w.Tasks {
		t := w.Tasks[i]
		if t.Deleted == trace.Never {
			list := byGPUs[durationKey(t.Requirements.GPU)]
			if len(list) == 0 {
				list = all
			}
			if len(list) == 0 {
				return nil, fmt.Errorf("%s: %w", w.Name, ErrNoDurations)
			}
			t.Created, t.Deleted = 0, list[random.IntN(len(list))]
		}
		timed.Tasks[i] = t
	}
	return &timed, nil
}

// durationKey tells pods apart by how many GPUs they ask for; -1 is a part of one.
func durationKey(r topology.Request) int8 {
	if r.Milli > 0 {
		return -1
	}
	return r.Whole
}
