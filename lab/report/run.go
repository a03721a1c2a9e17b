// Package report turns the record of one run of a cluster into what people read of it: a few lines of text, JSON, and one
// self-contained HTML page with charts and a map of the nodes.
//
// Invariants: every function here is a function of the Run that it is given. Nothing is sampled, rounded or left out on the way
// to the key figures; what was not measured is left out of the output and never shown as zero. The page loads nothing from
// outside, and its size is bounded whatever the number of nodes and samples.
//
// It does not observe a cluster (package demo does) and knows nothing of Kubernetes.
package report

import "time"

// Amount is a sum of resources.
type Amount struct {
	CPU    int64 `json:"cpuMillis"`
	Memory int64 `json:"memoryBytes"`
	GPU    int64 `json:"gpuMillis"` // thousandths of one GPU
}

// Plus is the sum of two amounts.
func (a Amount) Plus(b Amount) Amount {
	return Amount{CPU: a.CPU + b.CPU, Memory: a.Memory + b.Memory, GPU: a.GPU + b.GPU}
}

// Minus takes b from a.
func (a Amount) Minus(b Amount) Amount {
	return Amount{CPU: a.CPU - b.CPU, Memory: a.Memory - b.Memory, GPU: a.GPU - b.GPU}
}

// Use is what pods hold, by the two kinds of work that share a cluster.
type Use struct {
	Online, Offline Amount
	Pods            int
}

// Total is what both kinds hold together.
func (u Use) Total() Amount { return u.Online.Plus(u.Offline) }

// Sample is the state of the cluster at one moment. Created and Bound only ever grow.
type Sample struct {
	At time.Duration // since the start of the run

	Created   int // pods seen so far
	Bound     int // of those, given a node
	Pending   int // alive, without a node
	Running   int
	Succeeded int
	Failed    int

	Online, Offline Amount // requested by pods that have a node and have not ended
}

// Node is one node and what ran on it.
type Node struct {
	Name        string
	Machine     string // kind of machine, for people
	Group       string // what the map groups it by: a zone, or a GPU model
	GPUModel    string // "" without GPUs
	Allocatable Amount
	MaxPods     int
	Fullest     Use // when the cluster as a whole had most CPU allocated
	Final       Use // at the end
}

// Workload is a set of like pods.
type Workload struct {
	Name     string `json:"name"`
	Offline  bool   `json:"offline"`
	Priority int32  `json:"priority"`
	Each     Amount `json:"each"`             // requested by one pod
	Varied   bool   `json:"varied,omitempty"` // Each is that of the first pod, others differ
	Created  int    `json:"created"`
	Bound    int    `json:"bound"`
	Finished int    `json:"finished"`
}

// Unplaced is a set of pods that had no node at the end, for one reason.
type Unplaced struct {
	Reason  string `json:"reason"`  // of the PodScheduled condition; "" when none was written
	Message string `json:"message"` // of the same
	Pods    int    `json:"pods"`
	Example string `json:"example"` // namespace/name of one of them
}

// Run is the record of one run.
type Run struct {
	Title      string // "Demo"
	Source     string // where the work came from: a file
	Scheduler  string // name and version
	Kubernetes string // version of the API server
	Started    time.Time
	Elapsed    time.Duration
	Partial    string   // why the run ended before its work was done; "" when it was
	Notes      []string // what a reader must know to read the figures, a sentence each

	Nodes     []Node
	Samples   []Sample        // in order of time
	FullestAt time.Duration   // when Node.Fullest was taken
	Waits     []time.Duration // creation to binding, one per bound pod, as the observer saw them; any order
	BoundAt   []time.Duration // when each was bound; any order
	Workloads []Workload
	Unplaced  []Unplaced

	// Colocation is the other half of the demo; nil: it was not played.
	Colocation *Colocation
}

// Capacity is what all nodes offer together.
func (r *Run) Capacity() Amount {
	var total Amount
	for i := range r.Nodes {
		total = total.Plus(r.Nodes[i].Allocatable)
	}
	return total
}
