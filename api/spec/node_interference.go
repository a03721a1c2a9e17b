package spec

import (
	"reflect"
	"time"
)

// NodeInterference tells when what runs beside a service harms it, which neighbour it is, and what the agent does about it. It is off by default, and needs a node that lends. A
// field that is not written has its default, and a 0 that is written means 0. docs/concepts/interference.md explains how.
type NodeInterference struct {
	// Mode says what is done. InterferenceOff: nothing is watched. InterferenceReport: findings are reported, and nothing is done. InterferenceAct: growth of what is lent stops, the
	// culprit is limited, and a reclaimed one is evicted.
	Mode string `json:"mode"`
	// Culprits says which pods may be limited. CulpritsReclaimed: reclaimed pods. CulpritsShared: all without CPUs or a CPU limit of their own, but never to less than they request.
	// Others are named, and left alone.
	Culprits string `json:"culprits"`
	// Deviations is how many deviations beyond its baseline at the same load a signal has to be.
	Deviations float64 `json:"deviations"`
	// Correlation of a neighbour's use with the harm is the least that names it.
	Correlation float64 `json:"correlation"`
	// LimitShare is the share of the CPU that a culprit used that it may go on to use.
	LimitShare float64 `json:"limitShare"`
	// EvictPause is the least time between two evictions for interference on a node.
	EvictPause Duration `json:"evictPause"`
	// ReleaseAfter is for how long a service has to be calm until what was done for it is taken back.
	ReleaseAfter Duration `json:"releaseAfter"`
	// Counters: the processor's counters are read of services, so that harm by memory bandwidth and cache is seen where nobody waits. The agent needs the capability PERFMON for it. Where
	// the hardware, the hypervisor or the kernel shows no such counters, what they would say is unknown.
	Counters bool `json:"counters"`
	// Apart is for how long the two are better kept apart on this node, once the culprit was to be evicted; 0: they are not. The scheduler then looks for another node for pods like the culprit.
	Apart Duration `json:"apart"`
	// RunQueueProbe has BPF programs look for whom the threads of a service wait, while it is harmed and nobody is named, for two minutes of each harm at most. What they see counts
	// for more than what correlates. It needs CAP_BPF, CAP_PERFMON and tracefs; the report lists run queues as unknown where they are not seen.
	RunQueueProbe bool `json:"runQueueProbe"`
}

// The values of NodeInterference.Mode.
const (
	InterferenceOff    = "off"
	InterferenceReport = "report"
	InterferenceAct    = "act"
)

// The values of NodeInterference.Culprits.
const (
	CulpritsReclaimed = "reclaimed"
	CulpritsShared    = "shared"
)

// DefaultNodeInterference watches nothing.
func DefaultNodeInterference() NodeInterference {
	return NodeInterference{
		Mode: InterferenceOff, Culprits: CulpritsReclaimed, Deviations: 6, Correlation: 0.7, LimitShare: 0.25, EvictPause: Duration(10 * time.Minute), ReleaseAfter: Duration(10 * time.Minute), Apart: Duration(time.Hour),
	}
}

var interferenceBounds = bounds{"deviations": {2, 100}, "correlation": {0.1, 1}, "limitShare": {0, 1}, "evictPause": {60, day}, "releaseAfter": {30, day}, "apart": {0, day}}

func (i *NodeInterference) check(at string, bad report) {
	oneOf(bad, at+"mode", i.Mode, InterferenceOff, InterferenceReport, InterferenceAct)
	oneOf(bad, at+"culprits", i.Culprits, CulpritsReclaimed, CulpritsShared)
	checkNumbers(at, reflect.ValueOf(i).Elem(), interferenceBounds, bad)
}

// +kubebuilder:object:generate=true

// Interference is what an agent says of harm between pods.
type Interference struct {
	// Mode is NodeInterference.Mode: report or act.
	Mode string `json:"mode"`
	// Watched are the services that are watched, Learning those of them of which too little was seen yet at their load.
	Watched  int `json:"watched"`
	Learning int `json:"learning"`
	// Unknown are the signals that this node does not have, so that harm that shows in these alone is not seen.
	Unknown []string `json:"unknown,omitempty"`
	// Findings are the services that are harmed, the longest first.
	Findings []InterferenceFinding `json:"findings,omitempty"`
	// Apart are pods that should not be placed beside each other for a while.
	Apart []ApartHint `json:"apart,omitempty"`
}

// +kubebuilder:object:generate=true

// InterferenceFinding is a service that is harmed, and by whom.
type InterferenceFinding struct {
	Victim PodRef `json:"victim"`
	// Culprit is the neighbour that is named; nil: none can be.
	Culprit *PodRef `json:"culprit,omitempty"`
	// Step is what is done: one of the constants below. In mode report it is what would be.
	Step string `json:"step"`
	// Message says in which signal harm shows, by how much, and why the culprit is named.
	Message string `json:"message"`
}

// The values of InterferenceFinding.Step.
const (
	InterferenceGrowthStopped = "GrowthStopped"
	InterferenceLimited       = "CulpritLimited"
	InterferenceEvicting      = "CulpritEvicted"
	InterferenceLeftAlone     = "CulpritLeftAlone"
)

// InterferenceRunQueues is what a report calls the signal of NodeInterference.RunQueueProbe.
const InterferenceRunQueues = "run queues"

// Bounds of an Interference in a report.
const (
	MaxInterferenceFindings = 16
	MaxInterferenceUnknown  = 64 // bytes of each; the API server refuses a report with a longer one as a whole
	MaxApartHints           = 16
)

// ApartHint is advice, which expires: pods like the culprit are better not placed on this node while the victim is there. The scheduler goes by it where another node takes them.
type ApartHint struct {
	Victim  PodRef    `json:"victim"`
	Culprit PodRef    `json:"culprit"`
	Until   time.Time `json:"until"`
}

// DeepCopyInto copies into out. It is written by hand, for controller-gen takes a time.Time for one of its own types.
func (h *ApartHint) DeepCopyInto(out *ApartHint) { *out = *h }

// DeepCopy returns a copy.
func (h *ApartHint) DeepCopy() *ApartHint {
	if h == nil {
		return nil
	}
	out := *h
	return &out
}
