package bench

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
)

// StandinResult is a whole run.
type StandinResult struct {
	Protocol StandinProtocol `json:"protocol"`
	Levels   []StandinLevel  `json:"levels"`
}

// StandinLevel is what was measured at one share of allocated nodes.
type StandinLevel struct {
	AllocatedPercent int `json:"allocatedPercent"`
	// The medians of the rounds, each by itself.
	StandinRound
	Rounds []StandinRound `json:"rounds"`
}

// StandinRound is one measurement.
type StandinRound struct {
	PodsPerSecond          float64 `json:"podsPerSecond"`
	CPUMicrosPerPod        float64 `json:"cpuMicrosPerPod"`
	StandinCPUMicrosPerPod float64 `json:"standinCPUMicrosPerPod"`
	PeakBytes              int64   `json:"peakBytes"`
	// Seconds is the time from the first creation to the last nodeName seen, CreatedSeconds that to the answer to the last creation. Either may end first: the API server tells a watch of a pod before it answers who has created it.
	Seconds        float64 `json:"seconds"`
	CreatedSeconds float64 `json:"createdSeconds"`
}

func newStandinLevel(percent int, rounds []StandinRound) StandinLevel {
	median := func(figure func(StandinRound) float64) float64 { return medianOf(rounds, figure) }
	return StandinLevel{AllocatedPercent: percent, Rounds: rounds, StandinRound: StandinRound{
		PodsPerSecond:          median(func(r StandinRound) float64 { return r.PodsPerSecond }),
		CPUMicrosPerPod:        median(func(r StandinRound) float64 { return r.CPUMicrosPerPod }),
		StandinCPUMicrosPerPod: median(func(r StandinRound) float64 { return r.StandinCPUMicrosPerPod }),
		PeakBytes:              medianOf(rounds, func(r StandinRound) int64 { return r.PeakBytes }),
		Seconds:                median(func(r StandinRound) float64 { return r.Seconds }),
		CreatedSeconds:         median(func(r StandinRound) float64 { return r.CreatedSeconds }),
	}}
}

// StandinProtocol says how a result came about.
type StandinProtocol struct {
	Nodes          int    `json:"nodes"`
	Pods           int    `json:"pods"`
	Rounds         int    `json:"rounds"`
	Cores          int    `json:"cores"`
	FillersPerNode int    `json:"fillersPerNode"`
	Processes      string `json:"processes"`
	Clock          string `json:"clock"`
	CPU            string `json:"cpu"`
	APIServer      string `json:"apiServer"`
	Hilbert        string `json:"hilbertd"`
	Allocated      string `json:"allocated"`
}

func newStandinProtocol(o StandinOptions) StandinProtocol {
	return StandinProtocol{
		Nodes: o.Nodes, Pods: o.Pods, Rounds: o.Rounds, Cores: runtime.NumCPU(), FillersPerNode: fillersPerNode,
		Processes: "the stand-in API server, hilbertd and the harness are one operating system process each, started afresh for each round",
		Clock:     "rate = pods / (last nodeName seen by a second watch of the pods - start of the first creation); the harness creates the pods through the API meanwhile",
		CPU:       "user + system time of hilbertd (cpuMicrosPerPod) and of the stand-in, from before the first creation to settleSeconds after the last nodeName, over pods",
		APIServer: "stand-in: objects in memory, protobuf, HTTP/2 and TLS on loopback; UIDs, 409 and resource versions are checked; no disk, admission, validation or authorization",
		Hilbert:   "hilbertd with its default configuration, with the binary's own main loop",
		Allocated: "that share of the CPU and memory of every node is held by fillersPerNode pods that were bound before hilbertd started",
	}
}

// WriteTable writes the medians for people.
func (r *StandinResult) WriteTable(w io.Writer) error {
	p := r.Protocol
	fmt.Fprintf(w, "%d pods on %d nodes, stand-in API server, %d cores, median of %d rounds\n\n", p.Pods, p.Nodes, p.Cores, p.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "allocated\tpods/s\tµs/pod\tstand-in\tMiB\tcreated/s\t")
	for _, l := range r.Levels {
		fmt.Fprintf(t, "%d%%\t%.0f\t%.0f\t%.0f\t%d\t%.0f\t\n", l.AllocatedPercent, l.PodsPerSecond, l.CPUMicrosPerPod, l.StandinCPUMicrosPerPod,
			l.PeakBytes>>20, float64(p.Pods)/l.CreatedSeconds)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
