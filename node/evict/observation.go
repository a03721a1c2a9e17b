package evict

import (
	"math"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// Observation is what is seen at one tick. Memory and disk space are in bytes, CPU in logical CPUs, pressure from 0 to 1. A number that is not
// finite, below 0 or beyond what a machine can have counts as not known.
type Observation struct {
	// At is the time since the node's boot.
	At   time.Duration `json:"at"`
	Node Node          `json:"node"`
	// NUMANodes are the NUMA nodes by index of topology.NUMAShape.
	NUMANodes []NUMANode `json:"numaNodes,omitempty"`
	// Root is the file system of pods' volumes and logs, Images that of images and containers' own files. Where they are one, it is Root, and
	// nothing is known of Images.
	Root   Disk `json:"root"`
	Images Disk `json:"images"`
	// Pods are all of the node's, whatever their level.
	Pods []Pod `json:"pods,omitempty"`
	// Suppression is how hard node/advise holds reclaimed pods down at this tick.
	Suppression advise.Suppression `json:"suppression"`
	// Network is the way off the node.
	Network Network `json:"network,omitzero"`
	// Findings are what plugins say, at most MaxFindings.
	Findings []Finding `json:"findings,omitempty"`
	API      API       `json:"api"`
}

// Node is the machine as a whole.
type Node struct {
	MemoryTotal advise.Sample `json:"memoryTotal"`
	// MemoryAvailable is the lesser of what the kernel says (MemAvailable) and what the kubelet computes (the total less the working set of
	// the root cgroup), so that we see a shortage no later than it.
	MemoryAvailable advise.Sample `json:"memoryAvailable"`
	// MinWatermark is the sum of the NUMA nodes' min watermarks: below it tasks reclaim for themselves. Not known: it does not raise a mark.
	MinWatermark advise.Sample `json:"minWatermark"`
	// MemorySome and MemoryFull are the shares of the last 10 s in which some or all tasks of the worst online pod waited for memory.
	MemorySome advise.Sample `json:"memorySome"`
	MemoryFull advise.Sample `json:"memoryFull"`
	// SwapTotal and SwapFree are for information, and decide nothing.
	SwapTotal advise.Sample `json:"swapTotal"`
	SwapFree  advise.Sample `json:"swapFree"`
	// CPUPressure is the share of the time in which some task of the worst shared pod waited for a CPU.
	CPUPressure advise.Sample `json:"cpuPressure"`
}

// NUMANode is the memory of one NUMA node.
type NUMANode struct {
	Total advise.Sample `json:"total"`
	Free  advise.Sample `json:"free"`
	// InactiveFile is page cache that the kernel would drop first: a NUMA node without free memory is short only if there is little of this too.
	InactiveFile advise.Sample `json:"inactiveFile"`
	// LowWatermark is where kswapd wakes up. Not known: it does not raise a mark.
	LowWatermark advise.Sample `json:"lowWatermark"`
	// MemoryOnly: it has no CPUs. It is full by design, such as a GPU's memory or a slower tier, and never short.
	MemoryOnly bool `json:"memoryOnly,omitempty"`
}

// Disk is a file system.
type Disk struct {
	BytesTotal  advise.Sample `json:"bytesTotal"`
	Bytes       advise.Sample `json:"bytes"` // available
	InodesTotal advise.Sample `json:"inodesTotal"`
	Inodes      advise.Sample `json:"inodes"` // free
}

// Pod is one that is on the node.
type Pod struct {
	spec.PodRef
	Level    spec.QoSLevel `json:"level"`
	Priority int32         `json:"priority"`
	// Started is when it started, on the clock of Observation.At.
	Started     time.Duration `json:"started"`
	Terminating bool          `json:"terminating,omitempty"`
	// Memory is what its cgroup holds, RSS what of that is not page cache, NUMA nodes by NUMA node. MemoryAmount and CPUAmount are what it asked
	// for of the reclaimed resources.
	Memory       advise.Sample   `json:"memory"`
	RSS          advise.Sample   `json:"rss"`
	Swap         advise.Sample   `json:"swap"`
	NUMANodes    []advise.Sample `json:"numaNodes,omitempty"`
	MemoryAmount advise.Sample   `json:"memoryAmount"`
	CPU          advise.Sample   `json:"cpu"`
	CPUAmount    advise.Sample   `json:"cpuAmount"`
	// RunDelay is how many of its runnable threads wait for a CPU on average.
	RunDelay advise.Sample `json:"runDelay"`
	// Sent is what it sends off the node at least, in bytes per second.
	Sent   advise.Sample `json:"sent,omitzero"`
	Root   Use           `json:"root"`
	Images Use           `json:"images"`
}

// Use is what a pod has of a file system.
type Use struct {
	Bytes  advise.Sample `json:"bytes"`
	Inodes advise.Sample `json:"inodes"`
}

// API is what the API server's side said.
type API struct {
	// Unreachable: the agent's writes fail, since then on the clock of Observation.At.
	Unreachable bool          `json:"unreachable,omitempty"`
	Since       time.Duration `json:"since,omitempty"`
	// Answers are to requests that were reported. A request that is not among them has not been answered.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer says what became of a request.
type Answer struct {
	UID   string        `json:"uid"`
	State AnswerState   `json:"state"`
	Since time.Duration `json:"since"`
}

// AnswerState is what the API side says of a request.
type AnswerState string

// The answers. That a request was followed shows by the pod, which is terminating or gone.
const (
	Pending AnswerState = "Pending" // seen, and held back by the cluster's budget
	Refused AnswerState = "Refused" // a PodDisruptionBudget is in the way
)

// MaxFindings bounds what plugins say that is looked at.
const MaxFindings = 64

// Finding is a condition that a plugin watches.
type Finding struct {
	Plugin    string `json:"plugin"`
	Condition string `json:"condition"`
	// Stale: the plugin has not answered of late. Then it is not known whether the condition is met.
	Stale      bool        `json:"stale,omitempty"`
	Met        bool        `json:"met,omitempty"`
	Message    string      `json:"message,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Name tells findings apart.
func (f *Finding) Name() string { return f.Plugin + "/" + f.Condition }

// Candidate is a pod that would help if it went: by Gain, from 0 to 1.
type Candidate struct {
	UID  string  `json:"uid"`
	Gain float64 `json:"gain"`
}

// most is more than any machine has of anything, and little enough that sums stay exact enough and whole.
const most = 1 << 60

// value is a sample's number if it may be relied on.
func value(s advise.Sample) (float64, bool) {
	if !s.Known || math.IsNaN(s.Value) || s.Value < 0 || s.Value > most {
		return 0, false
	}
	return s.Value, true
}

// either is the first of two samples that is known.
func either(s, t advise.Sample) advise.Sample {
	if _, ok := value(s); ok {
		return s
	}
	return t
}
