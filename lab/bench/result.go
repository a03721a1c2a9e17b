package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Result is a whole run.
type Result struct {
	Protocol Protocol `json:"protocol"`
	// Raw names the contestant whose median is the raw rate; "" when none ran.
	Raw         string    `json:"raw,omitempty"`
	Contestants []Summary `json:"contestants"`
}

// Summary is one contestant's rounds.
type Summary struct {
	Name   string  `json:"name"`
	System string  `json:"system"`
	Rounds []Round `json:"rounds"`
	// Median is taken of each figure by itself.
	Median Round `json:"median"`
	// Ratios of median rates; absent where the other system did not run.
	RatioToRaw           *float64 `json:"ratioToRaw,omitempty"`
	RatioToKubeScheduler *float64 `json:"ratioToKubeScheduler,omitempty"`
}

func newResult(o Options, chosen []contestant, rounds map[string][]Round) *Result {
	r := &Result{Protocol: newProtocol(o, chosen)}
	var raw, reference float64
	for _, c := range chosen {
		s := Summary{Name: c.name, System: c.system, Rounds: rounds[c.name], Median: medians(rounds[c.name])}
		rate := s.Median.PodsPerSecond
		if c.system == systemRaw && rate > raw {
			raw, r.Raw = rate, c.name
		}
		if c.system == systemKubeScheduler {
			reference = rate
		}
		r.Contestants = append(r.Contestants, s)
	}
	for i := range r.Contestants {
		s := &r.Contestants[i]
		s.RatioToRaw = ratio(s.Median.PodsPerSecond, raw)
		s.RatioToKubeScheduler = ratio(s.Median.PodsPerSecond, reference)
	}
	return r
}

func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	q := a / b
	return &q
}

// medians takes the median of every figure over rounds, which are not empty.
func medians(rounds []Round) Round {
	return Round{
		PodsPerSecond:            medianOf(rounds, func(r Round) float64 { return r.PodsPerSecond }),
		SchedulerCPUMicrosPerPod: medianOf(rounds, func(r Round) float64 { return r.SchedulerCPUMicrosPerPod }),
		APIServerCPUMicrosPerPod: medianOf(rounds, func(r Round) float64 { return r.APIServerCPUMicrosPerPod }),
		EtcdCPUMicrosPerPod:      medianOf(rounds, func(r Round) float64 { return r.EtcdCPUMicrosPerPod }),
		SchedulerPeakBytes:       medianOf(rounds, func(r Round) int64 { return r.SchedulerPeakBytes }),
		APIServerPeakBytes:       medianOf(rounds, func(r Round) int64 { return r.APIServerPeakBytes }),
		EtcdPeakBytes:            medianOf(rounds, func(r Round) int64 { return r.EtcdPeakBytes }),
		WritesPerPod:             medianOf(rounds, func(r Round) float64 { return r.WritesPerPod }),
		Seconds:                  medianOf(rounds, func(r Round) float64 { return r.Seconds }),
	}
}

// medianRound is the round with the median of a figure, the lower one of two.
func medianRound[R any](rounds []R, figure func(R) float64) R {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b R) int { return cmp.Compare(figure(a), figure(b)) })
	return sorted[(len(sorted)-1)/2]
}

func medianOf[R any, T int64 | float64](rounds []R, figure func(R) T) T {
	values := make([]T, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// WriteJSON writes all of a result, of any of the benchmarks.
func WriteJSON(w io.Writer, result any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(result); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// WriteTable writes the medians, and the range of the rates, for people.
func (r *Result) WriteTable(w io.Writer) error {
	p := r.Protocol
	fmt.Fprintf(w, "%d pods of %d classes on %d nodes, Kubernetes %s, %d cores, median of %d rounds\n\n",
		p.Pods, p.Classes, p.Nodes, p.KubernetesVersion, p.Cores, p.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tpods/s\tlow\thigh\tµs/pod\tAPI server\tetcd\tMiB\tAPI server\tetcd\twrites/pod\tof raw\tof kube-scheduler\t")
	for _, s := range r.Contestants {
		low, high := s.Rounds[0].PodsPerSecond, s.Rounds[0].PodsPerSecond
		for _, round := range s.Rounds {
			low, high = min(low, round.PodsPerSecond), max(high, round.PodsPerSecond)
		}
		m := s.Median
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%.3f\t%s\t%s\t\n", s.Name, m.PodsPerSecond, low, high,
			m.SchedulerCPUMicrosPerPod, m.APIServerCPUMicrosPerPod, m.EtcdCPUMicrosPerPod,
			m.SchedulerPeakBytes>>20, m.APIServerPeakBytes>>20, m.EtcdPeakBytes>>20,
			m.WritesPerPod, times(s.RatioToRaw), times(s.RatioToKubeScheduler))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	fmt.Fprintln(w, "\nµs/pod: CPU time of the contestant, the API server and etcd; MiB: their peak memory; requests per pod in the last round:")
	for _, s := range r.Contestants {
		last := s.Rounds[len(s.Rounds)-1]
		fmt.Fprintf(w, "%s: %s", s.Name, last.Requests)
		if p.Gang > 0 {
			fmt.Fprintf(w, "; %d PodGroups say that they are scheduled", last.GangsTold)
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}

func times(q *float64) string {
	if q == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *q)
}
