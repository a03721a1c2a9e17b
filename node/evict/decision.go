package evict

import (
	"fmt"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Decision is what is to be done. All but Reclaims and Stop are states: what they name holds until a later Decision no longer names it. Reclaims
// and Stop are orders, each given once. For example, a pod stays in Requests at each tick until its eviction is no longer needed, so an agent that
// restarts, or a report that is lost, forgets no request; Stop names it at one tick only.
type Decision struct {
	// DryRun: all below is to be reported, and none of it carried out.
	DryRun bool `json:"dryRun,omitempty"`
	// Pressures are those that stand, the worst first.
	Pressures []Pressure `json:"pressures,omitempty"`
	// Unknown are the detectors that lacked an input at this tick.
	Unknown Detectors `json:"unknown,omitempty"`
	// NoLending is where nothing more may be lent, and why.
	NoLending []NoLending `json:"noLending,omitempty"`
	// Reclaims are for the memory worker.
	Reclaims []Reclaim `json:"reclaims,omitempty"`
	// Notices are pods that will have its eviction requested unless the pressure ends before.
	Notices []Notice `json:"notices,omitempty"`
	// Requests are for the report, the most wanted first. One that is not needed at this tick, or whose need is unknown, is left out.
	Requests []spec.EvictionRequest `json:"requests,omitempty"`
	// Stop is a pod whose containers the agent kills now, itself.
	Stop *Stop `json:"stop,omitempty"`
	// Closed: the node takes no reclaimed pods.
	Closed Closed `json:"closed"`
}

// Pressure is a detector's finding that lasted.
type Pressure struct {
	Detector Detector `json:"detector"`
	Level    Level    `json:"level"`
	// NUMANode is the NUMA node by index, or AllNUMANodes. Pod is set where the finding is of one pod.
	NUMANode int          `json:"numaNode"`
	Pod      *spec.PodRef `json:"pod,omitempty"`
	// Since is when it rose to its level.
	Since time.Duration `json:"since"`
	// Need is what must be given back for the level to end, Pending what pods that were asked, stopped or are leaving will: in bytes, inodes or CPUs.
	Need    float64 `json:"need"`
	Pending float64 `json:"pending"`
	// Unmeasured is of how many reclaimed pods it is not known what they would give back: none of them is asked for.
	Unmeasured int `json:"unmeasured,omitempty"`
	// Blind: the input is missing now; nothing new is asked for.
	Blind   bool   `json:"blind,omitempty"`
	Message string `json:"message"`
}

// AllNUMANodes stands for the node as a whole.
const AllNUMANodes = -1

// NoLending is a place where nothing more may be lent.
type NoLending struct {
	NUMANode int      `json:"numaNode"` // or AllNUMANodes
	Reason   Detector `json:"reason"`
}

// Reclaim is an order to take memory from a pod's cgroup.
type Reclaim struct {
	Pod      spec.PodRef `json:"pod"`
	Bytes    int64       `json:"bytes"`
	NUMANode int         `json:"numaNode"` // where it is wanted, or AllNUMANodes
	Reason   Detector    `json:"reason"`
}

// Notice tells a pod that it will have its eviction requested.
type Notice struct {
	Pod     spec.PodRef   `json:"pod"`
	Reason  Detector      `json:"reason"`
	Since   time.Duration `json:"since"`
	Due     time.Duration `json:"due"` // not before then
	Message string        `json:"message"`
}

// Stop is a pod that the agent stops itself.
type Stop struct {
	Pod     spec.PodRef `json:"pod"`
	Reason  Detector    `json:"reason"`
	Why     StopReason  `json:"why"`
	Message string      `json:"message"`
}

// StopReason says why the API was not waited for.
type StopReason string

// The reasons to stop a pod without the API.
const (
	NoStop            StopReason = ""
	APIUnreachable    StopReason = "APIUnreachable"
	RequestRefused    StopReason = "RequestRefused"
	RequestUnanswered StopReason = "RequestUnanswered"
)

// Closed says that the node takes no reclaimed pods, until a time.
type Closed struct {
	// Reason is empty where the node is open.
	Reason string        `json:"reason,omitempty"`
	Until  time.Duration `json:"until,omitempty"`
}

// Explain says the decision in lines for people, empty where there is nothing to say.
func (d *Decision) Explain() string {
	var b strings.Builder
	if d.DryRun && len(d.Pressures) > 0 {
		b.WriteString("dry run: nothing of this is acted on\n")
	}
	for i := range d.Pressures {
		p := &d.Pressures[i]
		fmt.Fprintf(&b, "%s %s since %v", p.Detector, p.Level, p.Since)
		if p.Pod != nil {
			fmt.Fprintf(&b, " of %s", p.Pod)
		}
		fmt.Fprintf(&b, ": %s", p.Message)
		if p.Pending > 0 {
			fmt.Fprintf(&b, "; %s to come", p.Detector.amount(p.Pending))
		}
		if p.Unmeasured > 0 {
			fmt.Fprintf(&b, "; what %d reclaimed pods would give back is not known", p.Unmeasured)
		}
		b.WriteByte('\n')
	}
	if d.Unknown != 0 {
		fmt.Fprintf(&b, "not known: %s\n", d.Unknown)
	}
	for _, n := range d.NoLending {
		fmt.Fprintf(&b, "nothing more is lent %s because of %s\n", where(n.NUMANode), n.Reason)
	}
	for _, r := range d.Reclaims {
		fmt.Fprintf(&b, "%s %s from %s %s: %s\n", d.verb("reclaim"), bytes(float64(r.Bytes)), r.Pod, where(r.NUMANode), r.Reason)
	}
	for _, n := range d.Notices {
		fmt.Fprintf(&b, "notice to %s, due at %v: %s\n", n.Pod, n.Due, n.Reason)
	}
	for i := range d.Requests {
		w, urgent := &d.Requests[i], ""
		if w.Urgent {
			urgent = "urgent "
		}
		fmt.Fprintf(&b, "%seviction of %s/%s requested: %s\n", urgent, w.Namespace, w.Name, w.Reason)
	}
	if d.Stop != nil {
		fmt.Fprintf(&b, "%s %s: %s, %s\n", d.verb("stop"), d.Stop.Pod, d.Stop.Reason, d.Stop.Why)
	}
	if d.Closed.Reason != "" {
		fmt.Fprintf(&b, "closed until %v: %s\n", d.Closed.Until, d.Closed.Reason)
	}
	return b.String()
}

func (d *Decision) verb(verb string) string {
	if d.DryRun {
		return "would " + verb
	}
	return verb
}

func where(numa int) string {
	if numa == AllNUMANodes {
		return "on the node"
	}
	return fmt.Sprintf("in NUMA node %d", numa)
}

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// bytes says an amount of memory as people do.
func bytes(v float64) string {
	if v >= gibibyte {
		return fmt.Sprintf("%.1fGi", v/gibibyte)
	}
	return fmt.Sprintf("%.0fMi", v/mebibyte)
}
