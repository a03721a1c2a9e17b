package bench

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
)

// SplitResult is a whole run.
type SplitResult struct {
	Protocol     SplitProtocol      `json:"protocol"`
	Arrangements []SplitArrangement `json:"arrangements"`
}

// SplitArrangement is what was measured of one arrangement of schedulers.
type SplitArrangement struct {
	Name string `json:"name"`
	// Apart is the number of scheduler processes, Inside that of schedulers in one process.
	Apart  int `json:"apart"`
	Inside int `json:"inside"`
	// The round with the median rate.
	SplitRound
	Rounds []SplitRound `json:"rounds"`
}

// SplitRound is one measurement.
type SplitRound struct {
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Processes are the hilbertds, the leader first.
	Processes []SplitProcess `json:"processes"`
	// CPU time of all of them, of the API server (with etcd, where there is one), and of the harness, which creates and watches.
	HilbertCPUMicrosPerPod   float64 `json:"hilbertCPUMicrosPerPod"`
	APIServerCPUMicrosPerPod float64 `json:"apiServerCPUMicrosPerPod"`
	HarnessCPUMicrosPerPod   float64 `json:"harnessCPUMicrosPerPod"`
	// Of the units that were handed to schedulers: how many were committed, rejected by the committer, and found no room in their part of the nodes.
	HandedOut int `json:"handedOut"`
	Committed int `json:"committed"`
	Rejected  int `json:"rejected"`
	Elsewhere int `json:"elsewhere"`
	// Messages that the leader has sent, and schedulers that it has shed as too slow.
	Messages int `json:"messages"`
	Shed     int `json:"shed"`
	// Seconds is the time from the first creation to the last nodeName seen, CreatedSeconds that to the answer to the last creation. Either may end first: the API server tells a watch of a pod before it answers who has created it.
	Seconds        float64 `json:"seconds"`
	CreatedSeconds float64 `json:"createdSeconds"`
}

// SplitProcess is one hilbertd.
type SplitProcess struct {
	Name            string  `json:"name"`
	CPUMicrosPerPod float64 `json:"cpuMicrosPerPod"`
	// Cores is how many it has kept busy: CPU time over the round's seconds.
	Cores float64 `json:"cores"`
	// PeakBytes is its largest resident set; of that, the program itself, with all of Kubernetes in it, takes some 130 MiB. HeapBytes is Go's heap in use in the end.
	PeakBytes int64 `json:"peakBytes"`
	HeapBytes int64 `json:"heapBytes"`
}

func newSplitArrangement(a arrangement, rounds []SplitRound) SplitArrangement {
	median := medianRound(rounds, func(r SplitRound) float64 { return r.PodsPerSecond })
	return SplitArrangement{Name: a.String(), Apart: a.apart, Inside: a.inside, SplitRound: median, Rounds: rounds}
}

// SplitProtocol says how a result came about.
type SplitProtocol struct {
	Nodes     int    `json:"nodes"`
	Pods      int    `json:"pods"`
	Classes   int    `json:"classes"`
	Rounds    int    `json:"rounds"`
	Cores     int    `json:"cores"`
	APIServer string `json:"apiServer"`
	Server    string `json:"server"`
	Processes string `json:"processes"`
	Clock     string `json:"clock"`
	CPU       string `json:"cpu"`
	Counts    string `json:"counts"`
}

func newSplitProtocol(o *SplitOptions, classes int) SplitProtocol {
	p := SplitProtocol{
		Nodes: o.Nodes, Pods: o.Pods, Classes: classes, Rounds: o.Rounds, Cores: runtime.NumCPU(), APIServer: o.APIServer,
		Server:    "stand-in: objects in memory, protobuf, HTTP/2 and TLS on loopback; no disk, admission, validation or authorization; started afresh for each round",
		Processes: "the API server, the leader, each scheduler and the harness are one operating system process each; hilbertds are started afresh for each round, and a round begins when each knows all nodes; leader and schedulers speak TLS on loopback",
		Clock:     "rate = pods / (last nodeName seen by a watch of the harness - start of the first creation); the harness creates the pods through the API meanwhile",
		CPU:       "user + system time from before the first creation to settleSeconds after the last nodeName, over pods; an arrangement shows the round with the median rate",
		Counts:    "by the leader, over the life of its process; one scheduler in one process hands nothing out",
	}
	if o.APIServer == RealAPIServer {
		p.Server = "kube-apiserver " + KubernetesVersion + " and etcd without fsync, one process each; pods are deleted and etcd is compacted between rounds; nodes are objects that no process updates"
	}
	return p
}

// WriteTable writes the rounds with the median rate for people.
func (r *SplitResult) WriteTable(w io.Writer) error {
	p := r.Protocol
	fmt.Fprintf(w, "%d pods of %d classes on %d nodes, %s, %d cores, the round with the median rate of %d\n\n", p.Pods, p.Classes, p.Nodes, p.APIServer, p.Cores, p.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tpods/s\tcreated/s\tleader µs/pod\tcores\theap MiB\tscheduler µs/pod\tcores\theap MiB\tAPI server µs/pod\tharness µs/pod\thanded out\trejected\t")
	for _, a := range r.Arrangements {
		leader := a.Processes[0]
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.1f\t%.2f\t%d", a.Name, a.PodsPerSecond, float64(p.Pods)/a.CreatedSeconds, leader.CPUMicrosPerPod, leader.Cores, leader.HeapBytes>>20)
		if others := a.Processes[1:]; len(others) > 0 {
			var all SplitProcess
			for _, s := range others {
				all.CPUMicrosPerPod, all.Cores, all.HeapBytes = all.CPUMicrosPerPod+s.CPUMicrosPerPod, all.Cores+s.Cores, max(all.HeapBytes, s.HeapBytes)
			}
			n := float64(len(others))
			fmt.Fprintf(t, "\t%.1f\t%.2f\t%d", all.CPUMicrosPerPod/n, all.Cores/n, all.HeapBytes>>20)
		} else {
			fmt.Fprint(t, "\t-\t-\t-")
		}
		fmt.Fprintf(t, "\t%.1f\t%.1f\t%d\t%d\t\n", a.APIServerCPUMicrosPerPod, a.HarnessCPUMicrosPerPod, a.HandedOut, a.Rejected)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	_, err := fmt.Fprintln(w, "\nOf schedulers: the mean of their CPU time over all pods, and the largest heap.")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
