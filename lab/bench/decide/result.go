package decide

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"hilbert.dev/hilbert/lab/bench"
)

// What all rows have in common.
const (
	decideFill = 60 // percent of the cluster's CPU
	decideSeed = 42
	decideGC   = 400 // GOGC
)

// Result is a whole run.
type Result struct {
	Protocol Protocol `json:"protocol"`
	Cases    []Case   `json:"cases"`
	// PeakBytes is the largest resident set of the process, which holds both sides.
	PeakBytes int64 `json:"peakBytes"`
}

// Case is a row.
type Case struct {
	Nodes int    `json:"nodes"`
	Case  string `json:"case"`
	// Medians over the rounds; Ratio is the median of the ratios of each round.
	HilbertPerSec       float64 `json:"hilbertPerSec"`
	KubeSchedulerPerSec float64 `json:"kubeSchedulerPerSec"`
	Ratio               float64 `json:"ratio"`
	// CPURatio is how many times the CPU time of a decision of Hilbert's one of kube-scheduler takes, by the medians. Work of others on the
	// machine moves it less than Ratio. kube-scheduler spreads its time over all cores, Hilbert does not: over the number of cores, it is what
	// Ratio would be if kube-scheduler wasted none of them.
	CPURatio float64 `json:"cpuRatio"`
	// Wanted is the Ratio to reach, 0 where there is none.
	Wanted float64 `json:"wanted"`
	// Members is how many pods a decision places: those of a gang, or 1.
	Members int       `json:"members"`
	Ratios  []float64 `json:"ratios"`
	Classes int       `json:"classes"`
	// Pods that hold nodes before the first round, and States: nodes that differ in what they have, what is taken, zone or pool.
	Pods          int  `json:"pods"`
	States        int  `json:"distinctNodeStates"`
	Hilbert       Side `json:"hilbert"`
	KubeScheduler Side `json:"kubeScheduler"`
}

// Side is one side of a row.
type Side struct {
	CPUMicrosPerDecision float64 `json:"cpuMicrosPerDecision"`
	// HeapBytes is what the side keeps, its cluster included.
	HeapBytes uint64 `json:"heapBytes"`
	// Pods that hold nodes after the last round.
	Pods   int     `json:"pods"`
	Rounds []Round `json:"rounds"`
}

// Round is one measurement. Unplaced decisions found no node; Victims had to leave.
type Round struct {
	Decisions            int     `json:"decisions"`
	Unplaced             int     `json:"unplaced"`
	Victims              int     `json:"victims"`
	Seconds              float64 `json:"seconds"`
	PerSec               float64 `json:"perSec"`
	CPUMicrosPerDecision float64 `json:"cpuMicrosPerDecision"`
}

// finish fills in the medians.
func (c *Case) finish() {
	for i, r := range c.Hilbert.Rounds {
		c.Ratios = append(c.Ratios, r.PerSec/c.KubeScheduler.Rounds[i].PerSec)
	}
	c.Ratio = middle(c.Ratios)
	c.HilbertPerSec, c.KubeSchedulerPerSec = c.Hilbert.finish(), c.KubeScheduler.finish()
	c.CPURatio = c.KubeScheduler.CPUMicrosPerDecision / c.Hilbert.CPUMicrosPerDecision
}

func (s *Side) finish() (perSec float64) {
	var rates, cpu []float64
	for _, r := range s.Rounds {
		rates, cpu = append(rates, r.PerSec), append(cpu, r.CPUMicrosPerDecision)
	}
	s.CPUMicrosPerDecision = middle(cpu)
	return middle(rates)
}

func (s *Side) unplaced() (n int) {
	for _, r := range s.Rounds {
		n += r.Unplaced
	}
	return n
}

// Protocol says how a result came about.
type Protocol struct {
	KubernetesVersion string  `json:"kubernetesVersion"`
	Cores             int     `json:"cores"`
	Rounds            int     `json:"rounds"`
	SecondsPerRound   float64 `json:"secondsPerRound"`
	LeastDecisions    int     `json:"leastDecisions"`
	FillPercent       int     `json:"fillPercent"`
	Seed              uint64  `json:"seed"`
	Process           string  `json:"process"`
	Load              string  `json:"load"`
	Basic             string  `json:"basic"`
	Plain             string  `json:"plain"`
	Mixed             string  `json:"mixed"`
	Batch             string  `json:"batch"`
	Preempt           string  `json:"preempt"`
	Odd               string  `json:"odd"`
	Claims            string  `json:"claims"`
	Gang              string  `json:"gang"`
	Hilbert           string  `json:"hilbert"`
	KubeScheduler     string  `json:"kubeScheduler"`
	CPU               string  `json:"cpu"`
}

func newDecideProtocol(o Options) Protocol {
	return Protocol{
		KubernetesVersion: bench.KubernetesVersion, Cores: runtime.NumCPU(), Rounds: o.Rounds, SecondsPerRound: o.Duration.Round(time.Millisecond).Seconds(),
		LeastDecisions: o.Least, FillPercent: decideFill, Seed: decideSeed,
		Process: "both schedulers in one process, in turn, one after the other; the heap is collected before each round; one round of each warms up; GOGC=400",
		Load: "Hilbert fills the cluster to fillPercent of its CPU and kube-scheduler gets the same pods on the same nodes; then the oldest pod leaves " +
			"and one of its class comes and is placed, again and again",
		Basic: "every pod is owned by a ReplicaSet, so that the default soft spread over hosts and zones applies on both sides: the whole default " +
			"profile as a user would run it",
		Plain:   "as basic, but the pods have no owner, so that default spread does nothing and kube-scheduler need not look at every pod",
		Mixed:   "a quarter of the classes each as in basic, spread, antiaffinity and affinity",
		Batch:   "one class, each pod fills a node, default spread off on both sides: what kube-scheduler's opportunistic batching is made for",
		Preempt: "all nodes are full; each pod evicts one of low priority and is bound when that is gone, which is at once",
		Odd: "sizes, sizes-owned: each of 1,000 classes asks for an amount of CPU of its own; image: all want one image, which one node in 20 has; selectors: as " +
			"sizes, with one of 40 label keys and one of 200 images; daemons: each pod names its node",
		Claims: "as plain, but each pod has a claim. volumes: it is bound to a volume in one of three zones, and stays for the pod that takes the place of the one that " +
			"left; volumes-new: it is new, is told its node, and a volume is there at once (kube-scheduler looks for it after a second, so that it may have 256 " +
			"pods on the way); devices: it is new and asks for one of the 8 devices of a node, by a class with a CEL expression. The writes about claims are " +
			"answered from memory on both sides, and the watch tells of them",
		Gang: "as plain, in gangs of 3, 32 and 512 pods of one class, none of which may be placed without the others; a decision is a gang: its PodGroup and " +
			"its pods come, are placed, bound and seen, and the PodGroup's condition is written (by Hilbert at most 50 a second, as in its default " +
			"configuration); the oldest gang leaves for each. kube-scheduler runs with GenericWorkload on",
		Hilbert: "the whole pipeline with the default configuration, all nodes evaluated: event, queue, decision, commit, Binding written and answered, " +
			"pod seen on its node; one goroutine",
		KubeScheduler: "scheduler.New and its loop, queue and cache, with the default profile: percentageOfNodesToScore adaptive (10 % of 5,000 nodes, 5 % " +
			"of 20,000), parallelism 16, default feature gates (opportunistic batching, asynchronous preemption and popping from backoff on); no API calls, " +
			"no Events, no logs, no event handlers; its queue is filled and its cache updated beside the loop, which never waits for a pod",
		CPU: "user and system time of the process during a round, garbage collection included, per decision",
	}
}

// WriteTable writes the medians for people.
func (r *Result) WriteTable(w io.Writer) error {
	p := r.Protocol
	fmt.Fprintf(w, "decisions without an API server, %d cores, median of %d rounds, Kubernetes %s\n\n", p.Cores, p.Rounds, p.KubernetesVersion)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "nodes\tcase\tmembers\tclasses\tpods\tstates\thilbert/s\tkube/s\tratio\twanted\tlow\thigh\thilbert µs\tkube µs\tof CPU\thilbert MiB\tkube MiB\tunplaced\t")
	for i := range r.Cases {
		c := &r.Cases[i]
		low, high := c.Ratios[0], c.Ratios[0]
		for _, q := range c.Ratios {
			low, high = min(low, q), max(high, q)
		}
		wanted := "-"
		if c.Wanted > 0 {
			wanted = fmt.Sprintf("%.0f", c.Wanted)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%.0f\t%s\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%d\t%d\t%d+%d\t\n",
			c.Nodes, c.Case, c.Members, c.Classes, c.Pods, c.States, c.HilbertPerSec, rate(c.KubeSchedulerPerSec), c.Ratio, wanted, low, high,
			c.Hilbert.CPUMicrosPerDecision, c.KubeScheduler.CPUMicrosPerDecision, c.CPURatio, c.Hilbert.HeapBytes>>20, c.KubeScheduler.HeapBytes>>20,
			c.Hilbert.unplaced(), c.KubeScheduler.unplaced())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	for i := range r.Cases {
		if c := &r.Cases[i]; c.Members > 1 {
			fmt.Fprintf(w, "\n%s on %d nodes: %.3f ms a gang, %.1f µs a pod; kube-scheduler %.2f ms a gang, %.0f µs a pod", c.Case, c.Nodes,
				1e3/c.HilbertPerSec, 1e6/c.HilbertPerSec/float64(c.Members), 1e3/c.KubeSchedulerPerSec, 1e6/c.KubeSchedulerPerSec/float64(c.Members))
		}
	}
	_, err := fmt.Fprintf(w, `
states: nodes that differ in what they have or what is taken; µs: CPU time a decision, and its ratio; MiB: live heap of each side, cluster included;
the process had %d MiB at its peak. On a machine that others use, rates are too low for kube-scheduler first, which needs all cores at once:
the ratio of CPU time over the number of cores is about what the ratio falls to on an idle one
load: %s
basic: %s
plain: %s
mixed: %s
batch: %s
preempt: %s
odd pods: %s
claims: %s
gang: %s
hilbert: %s
kube-scheduler: %s
`, r.PeakBytes>>20, p.Load, p.Basic, p.Plain, p.Mixed, p.Batch, p.Preempt, p.Odd, p.Claims, p.Gang, p.Hilbert, p.KubeScheduler)
	return err
}

// rate prints a rate that may be below 10 a second.
func rate(perSec float64) string {
	if perSec < 10 {
		return fmt.Sprintf("%.1f", perSec)
	}
	return fmt.Sprintf("%.0f", perSec)
}
