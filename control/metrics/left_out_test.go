package metrics

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// TestWhatFindsNoPlaceIsCounted: pods, containers and forecasts beyond their bounds are counted, each by itself, and what leaves makes room again.
func TestWhatFindsNoPlaceIsCounted(t *testing.T) {
	t.Parallel()
	var c Collector
	for i := range MaxPods + 2 {
		c.See(spec.PodRef{UID: fmt.Sprint(i)}, CPUUse, 1, start)
	}
	for i := range MaxContainers + 3 {
		c.SeePeak(spec.PodRef{UID: "0"}, fmt.Sprint(i), 1, start)
	}
	if got := c.LeftOut(); got != (LeftOut{Pods: 2, Containers: 3}) {
		t.Errorf("the collector left out %+v", got)
	}
	r := c.Take(start)
	if c.See(spec.PodRef{UID: "late"}, CPUUse, 1, start); c.LeftOut().Pods != 2 || len(r.Pods) != MaxPods {
		t.Errorf("%d pods in the report; after it %+v", len(r.Pods), c.LeftOut())
	}
	s, now := newStore(1), start
	for round := range 2 { // containers of two reports together
		peaks := make(map[string]int64)
		for i := range MaxContainers {
			peaks[fmt.Sprint(round, "-", i)] = 1
		}
		s.Take("n0", &Report{Pods: []PodReport{{PodRef: spec.PodRef{UID: "web-0"}, Peaks: peaks}}}, now)
		now = now.Add(15 * time.Second)
	}
	if got := s.LeftOut(); got != (LeftOut{Containers: MaxContainers}) {
		t.Errorf("the store left out %+v", got)
	}
}

// TestNamespacesShareForecasts: a namespace with as many workloads as there may be forecasts keeps none from the others, and both come to rest.
func TestNamespacesShareForecasts(t *testing.T) {
	t.Parallel()
	params := DefaultParams()
	params.MaxProfiles = 4
	s := NewStore(&params)
	ask := func(namespace string, i int, at time.Time) (full bool) {
		p := pod(i)
		p.UID, p.Namespace, p.Workload = fmt.Sprint(namespace, i), namespace, Workload{namespace, "Deployment", fmt.Sprint(i)}
		s.SetPod(p)
		tell(s, p, CPUUse, at, 1)
		before := s.LeftOut().Forecasts
		if _, err := s.Workload(p.Workload, named(t, "hilbert_cpu_use_forecast"), at); err != nil {
			t.Fatal(err)
		}
		return s.LeftOut().Forecasts > before
	}
	full := make(map[string]int)
	for round := range 4 {
		clear(full)
		at := start.Add(time.Duration(round) * time.Second)
		for _, namespace := range []string{"greedy", "shop"} { // the greedy one comes first, and takes all places
			for i := range 6 {
				if (namespace == "greedy" || i < 2) && ask(namespace, i, at.Add(time.Duration(i)*time.Millisecond)) {
					full[namespace]++
				}
			}
		}
	}
	if full["greedy"] != 4 || full["shop"] != 0 || s.Profiles() != 4 {
		t.Errorf("without a forecast in the last round: %v, of %d", full, s.Profiles())
	}
}
