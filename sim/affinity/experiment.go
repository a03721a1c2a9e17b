package affinity

import (
	"context"
	"fmt"
	"time"

	"hilbert.dev/hilbert/sim/trace"
)

// traceSpare is how many more machines package trace makes than the peak needs, in percent.
const traceSpare = 20

// Options say what is run.
type Options struct {
	Modes []Mode
	// Spare are the sizes of the replayed cluster: percent of machines beyond what the peak of the most wanted resource needs.
	Spare []float64
	// Seeds from Seed on. In a replay only the blind mode draws, so others are run once.
	Seed  uint64
	Seeds int
	// Fill is how much of the cluster's GPUs is asked for where instances with GPUs come in random order and stay; 0: that is left out.
	Fill float64
	// Demand is with how many times the RDMA share of the trace that is done, up to a whole card for each instance.
	Demand []float64
	// Wall tells how long it has been running, best in time on the CPU; nil: speed is not told.
	Wall func() time.Duration
}

// DefaultOptions are those of the documented experiment.
func DefaultOptions() Options {
	return Options{Modes: Modes(), Spare: []float64{traceSpare, 0, -5}, Seed: 1, Seeds: 10, Fill: 1.3, Demand: []float64{1, 2, 3}}
}

func (o *Options) validate() error {
	switch {
	case o.Seeds < 1 || o.Seeds > 1000:
		return fmt.Errorf("affinity: %d seeds: want 1 to 1000", o.Seeds)
	case !(o.Fill >= 0 && o.Fill <= trace.MaxRatio):
		return fmt.Errorf("affinity: fill %g: want 0 to %d, for example 1.3", o.Fill, trace.MaxRatio)
	case len(o.Modes) == 0:
		return fmt.Errorf("affinity: no mode; write some of %q", modeNames)
	}
	for _, d := range o.Demand {
		if !(d > 0 && d <= 100) {
			return fmt.Errorf("affinity: demand %g: want more than 0 and at most 100", d)
		}
	}
	for _, s := range o.Spare {
		if !(s > -100 && s <= 1000) {
			return fmt.Errorf("affinity: spare %g: want more than -100 and at most 1000 percent", s)
		}
	}
	return nil
}

// Setting is a cluster and a way to arrive, with a run for each mode and seed.
type Setting struct {
	Name string    `json:"name"`
	Mean []Outcome `json:"mean"` // by mode
	Runs []Outcome `json:"runs"`
}

// Result is the whole experiment.
type Result struct {
	Workload string    `json:"workload"`
	Settings []Setting `json:"settings"`
}

// Run plays a workload in every setting and mode.
func Run(ctx context.Context, w *trace.Workload, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Wall == nil {
		o.Wall = func() time.Duration { return 0 }
	}
	res := &Result{Workload: w.String()}
	for _, spare := range o.Spare {
		s := Setting{Name: fmt.Sprintf("replay, %g%% spare", spare)}
		share := (100 + spare) / (100 + traceSpare)
		for _, mode := range o.Modes {
			seeds := o.Seeds
			if mode != Blind {
				seeds = 1
			}
			for i := range uint64(seeds) {
				if err := s.run(ctx, &o, w, &setup{mode, share, o.Seed + i, 1}); err != nil {
					return nil, err
				}
			}
		}
		res.add(&o, s)
	}
	if o.Fill == 0 {
		return res, nil
	}
	gpus := onlyGPUs(w)
	for _, demand := range o.Demand {
		s := Setting{Name: fmt.Sprintf("fill, RDMA ×%g", demand)}
		for i := range uint64(o.Seeds) {
			arriving, err := trace.Arrive(gpus, o.Fill, o.Seed+i)
			if err != nil {
				return nil, fmt.Errorf("affinity: %w", err)
			}
			for _, mode := range o.Modes {
				if err := s.run(ctx, &o, arriving, &setup{mode, 1, o.Seed + i, demand}); err != nil {
					return nil, err
				}
			}
		}
		res.add(&o, s)
	}
	return res, nil
}

func (res *Result) add(o *Options, s Setting) {
	for _, mode := range o.Modes {
		s.Mean = append(s.Mean, meanOf(mode, s.Runs))
	}
	res.Settings = append(res.Settings, s)
}

// setup is what sets a run apart from others of the same workload.
type setup struct {
	mode  Mode
	share float64 // of the workload's machines
	seed  uint64
	// demand is how many times the bandwidth is asked for that the trace says.
	demand float64
}

func (s *Setting) run(ctx context.Context, o *Options, w *trace.Workload, with *setup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := newReplay(w, with)
	if err != nil {
		return err
	}
	r.wall = o.Wall
	out := r.play()
	out.Seed = with.seed
	s.Runs = append(s.Runs, *out)
	return nil
}

// onlyGPUs is the part of a workload that has to do with GPUs.
func onlyGPUs(w *trace.Workload) *trace.Workload {
	part := &trace.Workload{Name: w.Name}
	for _, n := range w.Nodes {
		if n.GPU.GPUs > 0 {
			part.Nodes = append(part.Nodes, n)
		}
	}
	for i := range w.Tasks {
		if !w.Tasks[i].Requirements.GPU.IsZero() {
			part.Tasks = append(part.Tasks, w.Tasks[i])
		}
	}
	return part
}
