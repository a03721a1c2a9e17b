package colocation

import (
	"context"
	"fmt"
	"time"

	"hilbert.dev/hilbert/lab/report"
	sim "hilbert.dev/hilbert/sim/colocation"
)

// dayNodes is how many machines the simulator's day has.
const dayNodes = 2

// Simulate plays a whole day in the simulator, with Hilbert and with requests alone. It has the laws and the scheduler, and no agent.
func Simulate(ctx context.Context) (*report.Day, error) {
	o := sim.DefaultOptions()
	o.Nodes, o.WarmUp = dayNodes, 0
	d := &report.Day{Nodes: dayNodes}
	for mode, list := range map[sim.Mode]*[]float64{sim.ModeHilbert: &d.Hilbert, sim.ModeRequests: &d.Requests} {
		out, err := sim.Play(ctx, &o, &sim.Variant{Name: string(mode), Mode: mode})
		if err != nil {
			return nil, fmt.Errorf("simulate a day: %w", err)
		}
		*list = quarters(out.Series)
	}
	return d, nil
}

// quarters are means over quarters of an hour of what is used.
func quarters(minutes []sim.Point) (out []float64) {
	const size = int(15 * time.Minute / time.Minute)
	for ; len(minutes) >= size; minutes = minutes[size:] {
		sum := 0.0
		for i := range size {
			sum += minutes[i].Online + minutes[i].Offline
		}
		out = append(out, round(sum/float64(size)))
	}
	return out
}
