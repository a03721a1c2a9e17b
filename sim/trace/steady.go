package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// streamSteady is the stream of the seed that Steady draws from.
const streamSteady = 1004

// Steady is some time of a cluster that is loaded evenly: the tasks are drawn from those of w, keep how long they ran, and arrive at random times, so that the load that is offered is
// this part of the GPUs. At the beginning those run that would if it had gone on for ever: drawn in proportion to how long they run, with a random part of that behind them. Tasks of w
// that have no end are not drawn.
//
// A list's own times are of little use where its pods were sampled from a larger cluster: of openb's never more than 56 run at once.
func Steady(w *Workload, load float64, length time.Duration, seed uint64) (*Workload, error) {
	if !(load > 0) || length <= 0 {
		return nil, fmt.Errorf("load %g for %v: want both above 0", load, length)
	}
	var from []Task
	var sums []float64 // of durations
	total, work := 0.0, 0.0
	for i := range w.Tasks {
		t := w.Tasks[i]
		if t.Deleted == Never {
			continue
		}
		d := max(time.Duration(t.Deleted-t.Created), time.Second).Seconds()
		total += d
		work += d * float64(t.Requirements.GPU.Total())
		from, sums = append(from, t), append(sums, total)
	}
	capacity := w.Capacity().GPUMilli
	if work == 0 || capacity == 0 {
		return nil, errors.New("no task with an end asks for GPUs, or no node has any")
	}
	random := rand.New(rand.NewPCG(seed, streamSteady))
	steady := *w
	steady.Name = fmt.Sprintf("%s, steady at %.0f %%", w.Name, 100*load)
	steady.Tasks = nil
	add := func(i int, created, left int64) {
		t := from[i]
		t.Name = fmt.Sprintf("steady-%05d", len(steady.Tasks))
		t.Created, t.Deleted = created, created+max(left, 1)
		steady.Tasks = append(steady.Tasks, t)
	}
	target := load * float64(capacity)
	for offered := 0.0; offered < target; {
		at, _ := slices.BinarySearch(sums, random.Float64()*total)
		at = min(at, len(sums)-1)
		add(at, 0, int64(random.Float64()*float64(from[at].Deleted-from[at].Created)))
		offered += float64(from[at].Requirements.GPU.Total())
	}
	gap := work / float64(len(from)) / target * float64(time.Second)
	for now := random.ExpFloat64() * gap; now < float64(length); now += random.ExpFloat64() * gap {
		at := random.IntN(len(from))
		add(at, int64(now), from[at].Deleted-from[at].Created)
	}
	return &steady, nil
}
