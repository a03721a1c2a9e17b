package evict

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Level is how bad a pressure is.
type Level uint8

// The levels.
const (
	None Level = iota
	Soft       // what is above the mark comes to an end: reclaimed pods are asked, with notice
	Hard       // past it the kernel or the kubelet would soon choose, and might choose an online pod
)

// String is the level's name.
func (l Level) String() string {
	switch l {
	case None:
		return "None"
	case Soft:
		return "Soft"
	case Hard:
		return "Hard"
	}
	return "Level(" + strconv.Itoa(int(l)) + ")"
}

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	for *l = None; *l <= Hard; *l++ {
		if l.String() == string(text) {
			return nil
		}
	}
	*l = None
	return fmt.Errorf("%q is no level of pressure", text)
}

// Detector is a row of the table. Its name is the reason in requests, events and metrics: bounded and stable.
type Detector uint8

// The detectors, in the order of the table: of two pressures of a level, the earlier goes first.
const (
	MemoryAvailable Detector = iota
	MemoryPressure
	NUMAMemory
	RootSpace
	RootInodes
	ImageSpace
	ImageInodes
	MemoryOveruse
	CPUPressure
	CPUSuppressed
	NetworkPressure
	Plugin
	detectorCount
)

// resource is what a victim gives back.
type resource uint8

const (
	memory resource = iota
	numaMemory
	cpu
	wantedCPU // what it uses and waits for
	rootBytes
	rootInodes
	imageBytes
	imageInodes
	sending // bytes per second that it sends off the node
	help    // what a plugin says that a pod would help by going
)

// scope is what a detector looks at, one by one.
type scope uint8

const (
	theNode scope = iota
	eachNUMANode
	eachPod
	eachFinding
)

// row is a detector. To add one is to add a row, and its line in docs/concepts/colocation.md.
type row struct {
	name     string
	resource resource
	scope    scope
	// lends: lending continues, because the node is not short of anything.
	lends bool
	// hold is how long a reading must last for each level.
	hold func(p *Params) (soft, hard time.Duration)
	// read says how it stands; i is the index of the NUMA node or pod.
	read func(v *view, i int) reading
	// say is the message.
	say func(v *view, i int, r *reading) string
	// hourly bounds its requests in an hour; nil: only the bounds of all do.
	hourly *hourly
	// eligible narrows the victims down; nil: each reclaimed pod that has something to give back.
	eligible func(v *view, pod *Pod) bool
}

// The table.
var detectors = [detectorCount]row{
	MemoryAvailable: {
		name: "MemoryAvailable", resource: memory,
		read: memoryAvailable, say: sayMemory,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.Memory) },
	},
	MemoryPressure: {
		name: "MemoryPressure", resource: memory,
		read: memoryPressure, say: sayPressure,
		hold: func(p *Params) (_, _ time.Duration) { return p.Pressure.SoftFor.D(), p.Pressure.HardFor.D() },
	},
	NUMAMemory: {
		name: "NUMAMemory", resource: numaMemory, scope: eachNUMANode,
		read: numaAvailable, say: sayNUMANode,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.NUMANode) },
	},
	RootSpace: {
		name: "RootSpace", resource: rootBytes,
		read: rootSpace, say: sayRoot,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.Root) },
	},
	RootInodes: {
		name: "RootInodes", resource: rootInodes,
		read: rootInodesFree, say: sayRootInodes,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.RootInodes) },
	},
	ImageSpace: {
		name: "ImageSpace", resource: imageBytes,
		read: imageSpace, say: sayImages,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.Images) },
	},
	ImageInodes: {
		name: "ImageInodes", resource: imageInodes,
		read: imageInodesFree, say: sayImageInodes,
		hold: func(p *Params) (_, _ time.Duration) { return holds(&p.ImageInodes) },
	},
	MemoryOveruse: {
		name: "MemoryOveruse", resource: memory, scope: eachPod, lends: true,
		read: overuse, say: sayOveruse,
		hold: func(p *Params) (_, _ time.Duration) { return p.Overuse.For.D(), 0 },
	},
	CPUPressure: {
		name: "CPUPressure", resource: cpu,
		read: onlinePressure, say: sayOnline,
		hold: func(p *Params) (_, _ time.Duration) { return p.CPU.For.D(), 0 },
	},
	CPUSuppressed: {
		// More lending helps pods that starve; online pods that wait stop lending by other means.
		name: "CPUSuppressed", resource: wantedCPU, lends: true,
		read: starvation, say: sayStarvation, eligible: (*view).starves,
		hold: func(p *Params) (_, _ time.Duration) { return p.Suppressed.For.D(), 0 },
	},
	NetworkPressure: {
		// Lending goes on: cores and memory are not short, and who comes sends no more than the floor with all others.
		name: "NetworkPressure", resource: sending, lends: true,
		read: uplinkPressed, say: sayUplink, eligible: (*view).sendsMost,
		hold:   func(p *Params) (_, _ time.Duration) { return p.Network.For.D(), 0 },
		hourly: &hourly{func(m *State) *[]time.Duration { return &m.GrantedNetwork }, func(p *Params) int { return p.Network.PerHour }},
	},
	Plugin: {
		// What a plugin finds stops no lending: it may be wrong, and whoever writes one means a pod.
		name: "Plugin", resource: help, scope: eachFinding, lends: true,
		read: found, say: sayFound,
		hold:   func(p *Params) (_, _ time.Duration) { return p.Plugins.For.D(), 0 },
		hourly: &hourly{func(m *State) *[]time.Duration { return &m.Granted }, func(p *Params) int { return p.Plugins.PerHour }},
	},
}

// String is the detector's name.
func (d Detector) String() string {
	if d < detectorCount {
		return detectors[d].name
	}
	return "Detector(" + strconv.Itoa(int(d)) + ")"
}

// MarshalText writes the name.
func (d Detector) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name.
func (d *Detector) UnmarshalText(text []byte) error {
	for i := range detectors {
		if detectors[i].name == string(text) {
			*d = Detector(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no detector", text)
}

// amount says how much of its resource.
func (d Detector) amount(v float64) string {
	switch detectors[d].resource {
	case cpu, wantedCPU:
		return fmt.Sprintf("%.2f CPUs", v)
	case rootInodes, imageInodes:
		return fmt.Sprintf("%.0f inodes", v)
	case sending:
		return fmt.Sprintf("%.2f MB/s", v/1e6)
	case help:
		return fmt.Sprintf("%.0f %% of what would help", v*percent)
	default:
		return bytes(v)
	}
}

// Detectors is a set of them.
type Detectors uint32

// Of is the set of some detectors.
func Of(ds ...Detector) Detectors {
	var s Detectors
	for _, d := range ds {
		s |= 1 << d
	}
	return s
}

// Has says whether d is in the set.
func (s Detectors) Has(d Detector) bool { return s&(1<<d) != 0 }

// String is the names, in the order of the table.
func (s Detectors) String() string { return strings.Join(s.names(), ", ") }

func (s Detectors) names() []string {
	names := []string{}
	for d := range detectorCount {
		if s.Has(d) {
			names = append(names, d.String())
		}
	}
	return names
}

// MarshalJSON writes the names.
func (s Detectors) MarshalJSON() ([]byte, error) { return json.Marshal(s.names()) }

// UnmarshalJSON reads the names.
func (s *Detectors) UnmarshalJSON(text []byte) error {
	var ds []Detector
	if err := json.Unmarshal(text, &ds); err != nil {
		return err
	}
	*s = Of(ds...)
	return nil
}

// view is what a detector may look at.
type view struct {
	o *Observation
	p *Params
	// floored is for how many seconds reclaimed pods have had no more than the floor.
	floored float64
}

// reading is what a detector sees at one tick. The zero value is: an input is not known.
type reading struct {
	known      bool
	soft, hard side
	// reclaim is how many bytes may be reclaimed where a level is called for, if that is more than what pods must give back.
	reclaim float64
}

// side is one level's part: it is called for where value is at least enter, and over where it is at most clear. need is what must be given back
// until then. Where less is worse, all are negative.
type side struct{ value, enter, clear, need float64 }

// want is what must still be given back: nothing where the level is over but for the time that it must be.
func (s *side) want() float64 {
	if s.value <= s.clear {
		return 0
	}
	return max(s.need, 0)
}

// never is a level that a detector does not have.
func never() side { return side{value: 0, enter: 1, clear: 0} }

// count is how many things there are to look at.
func (r *row) count(o *Observation) int {
	switch r.scope {
	case eachNUMANode:
		return len(o.NUMANodes)
	case eachPod:
		return len(o.Pods)
	case eachFinding:
		return min(len(o.Findings), MaxFindings)
	default:
		return 1
	}
}

// gain is what would come back if a pod left. What a plugin says of that, Watch.gain knows.
func (r resource) gain(pod *Pod, numa int) advise.Sample {
	switch r {
	case memory:
		return either(pod.RSS, pod.Memory)
	case numaMemory:
		if numa >= 0 && numa < len(pod.NUMANodes) {
			return pod.NUMANodes[numa]
		}
	case cpu:
		return pod.CPU
	case wantedCPU:
		_, want, ok := wanted(pod)
		return advise.Sample{Value: want, Known: ok}
	case rootBytes:
		return pod.Root.Bytes
	case rootInodes:
		return pod.Root.Inodes
	case imageBytes:
		return pod.Images.Bytes
	case imageInodes:
		return pod.Images.Inodes
	case sending:
		return pod.Sent
	case help: // Watch.gain
	}
	return advise.Sample{}
}

// least is what a pod must give back to be worth it.
func (r resource) least(p *Params) float64 {
	l := &p.Escalation
	switch r {
	case sending:
		return p.Network.Least
	case memory, numaMemory:
		return l.LeastMemory
	case cpu, wantedCPU:
		return l.LeastCPU
	case rootInodes, imageInodes:
		return l.LeastInodes
	case help:
		return leastHelp
	default:
		return l.LeastDisk
	}
}
