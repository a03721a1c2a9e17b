package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// ArrivalGap is the time between two arrivals of an experiment that Arrive makes, in nanoseconds.
const ArrivalGap = 1_000_000_000

// MaxRatio bounds what Arrive is asked for.
const MaxRatio = 100

// Why there can be no arrival experiment.
var (
	ErrNoGPUs       = errors.New("the nodes have no GPU")
	ErrNoGPURequest = errors.New("no task asks for a GPU")
)

// Streams of the seed, so that one use does not shift another's numbers.
const (
	streamArrive = 1 + iota
	streamSynthetic
	streamTenants
	streamNUMA
	streamLending
	streamDevices
	streamOwners
	streamVariety
	streamClaims
	streamBound
	streamReservations
)

// Arrive makes the openb experiment of a workload: its tasks are shuffled with the seed; then tasks are removed at random, or more are
// drawn from the list uniformly at random, until the GPU thousandths requested are ratio times the cluster's. They arrive one by one,
// ArrivalGap apart, and never leave. A task that was drawn again carries its number behind its name.
func Arrive(w *Workload, ratio float64, seed uint64) (*Workload, error) {
	if !(ratio > 0 && ratio <= MaxRatio) {
		return nil, fmt.Errorf("arrive %g: want a ratio above 0 and at most %d, for example 1.3", ratio, MaxRatio)
	}
	capacity := w.Capacity().GPUMilli
	if capacity == 0 {
		return nil, fmt.Errorf("arrive %g: %w", ratio, ErrNoGPUs)
	}
	var requested int64
	for i := range w.Tasks {
		requested += w.Tasks[i].Requirements.GPU.Total()
	}
	if requested == 0 {
		return nil, fmt.Errorf("arrive %g: %w", ratio, ErrNoGPURequest)
	}
	target := int64(math.Round(ratio * float64(capacity)))
	random := rand.New(rand.NewPCG(seed, streamArrive))
	tasks := slices.Clone(w.Tasks)
	random.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	tasks = thin(tasks, requested, target, random)
	for drawn := 0; requested < target; drawn++ {
		task := w.Tasks[random.IntN(len(w.Tasks))]
		task.Name = fmt.Sprintf("%s-%d", task.Name, drawn)
		requested += task.Requirements.GPU.Total()
		tasks = append(tasks, task)
	}
	for i := range tasks {
		tasks[i].Created, tasks[i].Deleted = int64(i)*ArrivalGap, Never
		tasks[i].Unit, tasks[i].Subgroup, tasks[i].Runs = "", "", 0 // one by one is not together
	}
	return &Workload{
		Name: fmt.Sprintf("%s, %g of its GPUs requested", w.Name, ratio), Nodes: w.Nodes, Tasks: tasks,
		Identities: w.Identities, Controllers: w.Controllers, Queues: w.Queues, Namespaces: w.Namespaces,
	}, nil
}

// thin removes tasks at random until they request no more than the target; the rest keep their order.
func thin(tasks []Task, requested, target int64, random *rand.Rand) []Task {
	order := random.Perm(len(tasks))
	removed := make([]bool, len(tasks))
	for _, i := range order {
		if requested <= target {
			break
		}
		removed[i] = true
		requested -= tasks[i].Requirements.GPU.Total()
	}
	kept := tasks[:0]
	for i := range tasks {
		if !removed[i] {
			kept = append(kept, tasks[i])
		}
	}
	return kept
}
