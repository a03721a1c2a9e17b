package tide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/robfig/cron/v3"

	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/sim/trace"
)

// Options say what is played.
type Options struct {
	// Replicas serve the most load before what is judged, at the share Target of what they can. Capacity is missing beyond the share Limit.
	Replicas int     `json:"replicas"`
	Target   float64 `json:"target"`
	Limit    float64 `json:"limit"`
	// Start is how long a replica takes until it serves, MetricAge how old the metric is that HPA sees.
	Start     time.Duration `json:"startNanoseconds"`
	MetricAge time.Duration `json:"metricAgeNanoseconds"`
	// Job is the mean length of offline jobs, Grace what an evicted one takes to end.
	Job   time.Duration `json:"jobNanoseconds"`
	Grace time.Duration `json:"graceNanoseconds"`
	// PodsPerNode are the slots of a node that changes hands, Change how long that takes until it takes pods of its new side.
	PodsPerNode int           `json:"podsPerNode"`
	Change      time.Duration `json:"changeNanoseconds"`
	// WorkloadTimeLossPermille is how much of their time replicas may lose to moves off nodes that have changed hands, in thousandths (rescheduling.maxWorkloadTimeLossPermille).
	WorkloadTimeLossPermille int `json:"workloadTimeLossPermille"`
	// Quantile is that of forecasts: of ten rises nine find capacity with 0.9. Rises: a load without a period is forecast by what it rises by.
	Quantile float64 `json:"quantile"`
	Rises    bool    `json:"rises"`
	// Peak is a cron expression with an optional time zone, CRON_TZ=Europe/Berlin 0 12 * * 3, of planned peaks that take PeakLength and are PeakFactor
	// times the most before; empty for none.
	Peak       string        `json:"peak"`
	PeakLength time.Duration `json:"peakLengthNanoseconds"`
	PeakFactor float64       `json:"peakFactor"`
	Seed       uint64        `json:"seed"`
}

// DefaultOptions have a service with a tight target.
func DefaultOptions() Options {
	return Options{
		Replicas: 100, Target: 0.7, Limit: 0.8, Start: 3 * time.Minute, MetricAge: 30 * time.Second, Job: 20 * time.Minute, Grace: 30 * time.Second,
		PodsPerNode: 10, Change: 30 * time.Second, WorkloadTimeLossPermille: reschedule.Defaults().WorkloadTimeLossPermille, Quantile: 0.9, Rises: true,
		Peak: "CRON_TZ=Europe/Berlin 0 12 * * 3", PeakLength: 2 * time.Hour, PeakFactor: 1.5, Seed: 1,
	}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Replicas < 1 || o.Replicas > 10_000:
		return fmt.Errorf("tide: %d replicas: want 1 to 10,000", o.Replicas)
	case !(o.Target > 0 && o.Target < o.Limit && o.Limit <= 1):
		return fmt.Errorf("tide: target %g, limit %g: want more than 0, a limit above the target, and at most 1", o.Target, o.Limit)
	case o.Start < 0 || o.Start > time.Hour || o.MetricAge < 0 || o.MetricAge > time.Minute || o.Grace < 0 || o.Grace > time.Hour:
		return fmt.Errorf("tide: start %s, metric age %s, grace %s: want 0 to an hour, a minute and an hour", o.Start, o.MetricAge, o.Grace)
	case o.Job < time.Minute || o.Job > 4*time.Hour:
		return fmt.Errorf("tide: jobs of %s: want a minute to four hours", o.Job)
	case o.PodsPerNode < 1 || o.PodsPerNode > 1000 || o.Change < 0 || o.Change > time.Hour:
		return fmt.Errorf("tide: %d pods on a node that takes %s to change hands: want 1 to 1,000, and 0 to an hour", o.PodsPerNode, o.Change)
	case o.WorkloadTimeLossPermille < 1 || o.WorkloadTimeLossPermille > reschedule.WholeWorkload:
		return fmt.Errorf("tide: %d thousandths of the replicas' time: want 1 to %d", o.WorkloadTimeLossPermille, reschedule.WholeWorkload)
	case !(o.Quantile > 0 && o.Quantile < 1):
		return fmt.Errorf("tide: quantile %g: want more than 0 and less than 1", o.Quantile)
	case o.Peak != "" && (o.PeakLength < time.Minute || !(o.PeakFactor > 0)):
		return fmt.Errorf("tide: a peak of %s and factor %g: want at least a minute and more than 0", o.PeakLength, o.PeakFactor)
	}
	if _, err := o.peak(1); err != nil {
		return err
	}
	return nil
}

// peak reads the planned peak, for the most load before what is judged.
func (o *Options) peak(most float64) ([]forecast.Peak, error) {
	if o.Peak == "" {
		return nil, nil
	}
	schedule, err := cron.ParseStandard(o.Peak)
	if err != nil {
		return nil, fmt.Errorf("tide: peak %q: %w: write five fields, for example CRON_TZ=Europe/Berlin 0 12 * * 3", o.Peak, err)
	}
	return []forecast.Peak{{Name: o.Peak, Begins: schedule, Duration: o.PeakLength, Load: most * o.PeakFactor}}, nil
}

// Result is the whole experiment.
type Result struct {
	Setup    Options   `json:"setup"`
	Outcomes []Outcome `json:"outcomes"`
}

// least is how long a series has to be. What has not two periods before the judged quarter has no forecast.
const least = 4 * time.Hour

// Run plays all ways on all series, without and with a planned peak. progress, which may be nil, is told before each how many of how many are done.
func Run(ctx context.Context, list []*trace.Series, o *Options, progress func(done, of int)) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("tide: want a series at the least")
	}
	res := &Result{Setup: *o}
	of := len(list) * 2 * len(Ways)
	for _, s := range list {
		if time.Duration(len(s.Loads))*s.Step < least || s.Step > time.Hour || s.Step < 2*time.Minute {
			return nil, fmt.Errorf("tide: %s has %d steps of %s: want four hours or more, at steps of two minutes to an hour", s.Name, len(s.Loads), s.Step)
		}
		most := mostOf(s.Loads[:len(s.Loads)*3/4])
		peaks, err := o.peak(most)
		if err != nil {
			return nil, err
		}
		if err := o.sized(s, most); err != nil {
			return nil, err
		}
		for _, planned := range [][]forecast.Peak{nil, peaks} {
			if planned == nil && len(res.Outcomes) > 0 && res.Outcomes[len(res.Outcomes)-1].Series == s.Name {
				continue
			}
			for _, way := range Ways {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if progress != nil {
					progress(len(res.Outcomes), of)
				}
				res.Outcomes = append(res.Outcomes, play(o, s, way, planned))
			}
		}
	}
	return res, nil
}

// mostOf is the greatest load that is known; 0: none is.
func mostOf(loads []float64) (most float64) {
	for _, v := range loads {
		if v >= 0 {
			most = max(most, v)
		}
	}
	return most
}

// maxSlots bounds the slots of a cluster, each of which holds a replica or a job.
const maxSlots = 200_000

// sized checks that the cluster that a series needs can be played: it is as large as the greatest load is beside the greatest before what is judged, by which a replica is measured.
func (o *Options) sized(s *trace.Series, most float64) error {
	if most == 0 {
		return fmt.Errorf("tide: the first three quarters of %s have no load, by which a replica could be measured", s.Name)
	}
	highest := mostOf(s.Loads)
	if o.Peak != "" {
		highest = max(highest, most*o.PeakFactor)
	}
	if slots := o.slots(highest, most); slots > maxSlots {
		return fmt.Errorf("tide: %s rises to %.3g times what it was in its first three quarters, so that %d replicas become %.3g slots: want at most %d; give fewer replicas, a smaller peak, or another series",
			s.Name, highest/most, o.Replicas, slots, maxSlots)
	}
	return nil
}

// perPod is the load that a replica can serve at most.
func (o *Options) perPod(most float64) float64 { return most / (float64(o.Replicas) * o.Target) }

// slots are a quarter more than the replicas that the highest load asks for. So many Replicas serve the most load before what is judged.
func (o *Options) slots(highest, most float64) float64 {
	return math.Ceil(1.25 * max(highest, most) / (o.perPod(most) * o.Target))
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SERIES\tPEAK\tWAY\tDAYS\tRISES\tMINUTES\tLONGEST\tMISSED\tEVICTIONS\tLOST h\tWORK h\tREPLICA h\tNODES\tMOVED\tTRUSTED\tOF NODES\t")
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		peak, trusted, handed, moved, ofNodes := "", "", "", "", ""
		if o.Planned {
			peak = "planned"
		}
		if o.Way == Hilbert || o.Way == Nodes {
			trusted = fmt.Sprintf("%.0f%%", 100*o.Trusted)
		}
		if o.Way == Nodes {
			ofNodes = fmt.Sprintf("%.0f%%", 100*o.NodesTrusted)
		}
		if o.Way == Nodes || o.Way == NodesByNeed || o.Way == Oracle {
			handed, moved = strconv.Itoa(o.NodesHanded), strconv.Itoa(o.ReplicasMoved)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\t%d\t%.1f\t%.1f\t%.3f%%\t%d\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t\n", o.Series, peak, o.Way, o.Days, o.Rises, o.Minutes, o.Longest,
			100*o.Missed, o.Evictions, o.LostHours, o.WorkHours, o.ReplicaHours, handed, moved, trusted, ofNodes)
	}
	return t.Flush()
}
