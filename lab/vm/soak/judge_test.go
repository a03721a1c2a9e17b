package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// MaxSilence is how long what is lent may stay lent while the agent is away and its watchdog runs.
const MaxSilence = 30 * time.Second

// Reading is what is seen of a node at about one time.
type Reading struct {
	// Online are its CPUs, NUMA those of each NUMA node, Reserved those that no pod of ours may have for itself, Floor how many CPUs of each NUMA node reclaimed
	// pods have at the least.
	Online, Reserved topology.CPUSet
	NUMA             []topology.CPUSet
	Floor            int
	// Pods are those that the sequence wants or that the API server has. Containers are those that the kernel has.
	Pods       []Pod
	Containers []Container
	// Agent and Watchdog say for how long each has been running, or away.
	Agent, Watchdog Party
	// Busy: the online service wants as many CPUs as the online pods request together.
	Busy bool
	// Turn is who may write knobs: "agent", "watchdog" or nothing.
	Turn string
	// Allocations are what the CustomNodeResource says that pods hold.
	Allocations []Allocation
	// Cards is how many cards of the plugin it says that pods hold, and CardsSay why the plugin does not serve; empty: it does.
	Cards    int64
	CardsSay string
}

// Party is a process.
type Party struct {
	Away bool
	For  time.Duration
}

// Pod is a pod.
type Pod struct {
	Name, UID string
	Level     Level
	// Wanted: the sequence has created it, and not deleted it. Exists: the API server has it. Running: its container is said to run.
	Wanted, Exists, Running bool
	// MilliCPU is what the kubelet has given it. Known is what that was when the agent was last seen to be there; -1: the agent has not seen the pod.
	MilliCPU, Known int64
	// Cards is how many cards of the plugin it asks for.
	Cards int64
	// Promised are the NUMA nodes that it was promised; nil: none.
	Promised []int
	// Says is why it does not run; empty: it does not say. Events are the reasons of the events about it.
	Says   string
	Events []string
}

// Container is a container with processes.
type Container struct {
	UID, ID string
	CPUs    topology.CPUSet // where they may run
	// New: it has begun while the agent was away.
	New bool
}

// Allocation is what a report says that a pod holds.
type Allocation struct {
	UID   string
	CPUs  topology.CPUSet
	Moved bool
}

// lends reports whether reclaimed pods have more for themselves than the floor.
func (r *Reading) lends() bool { return newJudge(r).lends() }

func newJudge(r *Reading) *judge {
	j := &judge{Reading: r, pods: make(map[string]*Pod)}
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Exists {
			j.pods[p.UID] = p
		}
	}
	return j
}

// Judge returns what is wrong with a node, a line for each thing; nothing: all its promises hold.
func Judge(r *Reading) []string {
	j := newJudge(r)
	j.noCPUTwice()
	j.noneInSilence()
	j.promises()
	j.noLoanOfTheAbsent()
	j.poolsHoldRequests()
	j.cardsAreHeld()
	return j.wrong
}

type judge struct {
	*Reading
	pods  map[string]*Pod // by UID
	wrong []string
}

func (j *judge) says(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// name is a pod's, or what there is of it.
func (j *judge) name(uid string) string {
	if p := j.pods[uid]; p != nil {
		return p.Name
	}
	return "pod " + uid
}

// open reports whether nobody could yet have given a container its CPUs.
func (j *judge) open(c *Container) bool { return c.New && j.Agent.Away }

func (j *judge) level(uid string) Level {
	if p := j.pods[uid]; p != nil {
		return p.Level
	}
	return ""
}

// cardsAreHeld: the plugin serves; pods that run hold the cards that they asked for, and nobody else holds any.
func (j *judge) cardsAreHeld() {
	if j.Agent.Away {
		return
	}
	if j.CardsSay != "" {
		j.says("the plugin does not serve: %s", j.CardsSay)
		return
	}
	var run, there int64
	for _, p := range j.pods {
		if p.Exists {
			there += p.Cards
		}
		if p.Exists && p.Running {
			run += p.Cards
		}
	}
	if j.Cards < run || j.Cards > there {
		j.says("%d cards are held; pods that run asked for %d, and all pods for %d", j.Cards, run, there)
	}
}

// noCPUTwice: what a dedicated pod runs on, no other pod runs on; and no CPU is reported as held by two, or by a pod that is gone.
func (j *judge) noCPUTwice() {
	for i := range j.Containers {
		own := &j.Containers[i]
		if j.level(own.UID) != Dedicated || j.open(own) { // the sandbox of a pod that waits for the agent
			continue
		}
		if twice := own.CPUs.Intersection(j.Reserved); !twice.IsEmpty() {
			j.says("CPU twice: %s runs on %v, which is reserved", j.name(own.UID), twice)
		}
		for k := range j.Containers {
			other := &j.Containers[k]
			if other.UID == own.UID || j.open(other) || j.level(other.UID) == Dedicated && k < i {
				continue
			}
			if twice := own.CPUs.Intersection(other.CPUs); !twice.IsEmpty() {
				j.says("CPU twice: %v is %s's own, and %s runs there too", twice, j.name(own.UID), j.name(other.UID))
			}
		}
	}
	for i, a := range j.Allocations {
		if j.pods[a.UID] == nil && !j.Agent.Away {
			j.says("CPU for nobody: %v is reported as held by %s, which is gone", a.CPUs, j.name(a.UID))
		}
		for _, b := range j.Allocations[:i] {
			if twice := a.CPUs.Intersection(b.CPUs); a.UID != b.UID && !twice.IsEmpty() {
				j.says("CPU twice: %v is reported as held by %s and by %s", twice, j.name(b.UID), j.name(a.UID))
			}
		}
	}
}

// ends are the reasons for which a pod may be taken away.
var ends = []string{ //nolint:gochecknoglobals // a constant
	spec.ReasonPromiseBroken, spec.ReasonEvictedForPressure, spec.ReasonStopped, "Evicted",
}

// noneInSilence: a pod that was created is there and runs, or something says why not.
func (j *judge) noneInSilence() {
	for i := range j.Pods {
		p := &j.Pods[i]
		switch {
		case !p.Wanted:
		case !p.Exists:
			if !slices.ContainsFunc(p.Events, func(reason string) bool { return slices.Contains(ends, reason) }) {
				j.says("in silence: %s is gone, and nothing says why", p.Name)
			}
		case p.Running:
			if j.held(p.UID).IsEmpty() {
				j.says("in silence: %s is said to run, and has no process", p.Name)
			}
		case j.Agent.Away && (p.Level == Dedicated || p.Level == Reclaimed): // it needs the agent, and is told so by its container
		case p.Says == "":
			j.says("in silence: %s does not run, and nothing says why", p.Name)
		}
	}
}

// held is what the containers of a pod run on.
func (j *judge) held(uid string) (out topology.CPUSet) {
	for i := range j.Containers {
		if c := &j.Containers[i]; c.UID == uid {
			out = out.Union(c.CPUs)
		}
	}
	return out
}

const milliPerCPU = 1000

// promises: a dedicated pod has as many CPUs as it requests, of the NUMA nodes that it was promised, and the report says the same; or something says that the
// promise is broken.
func (j *judge) promises() {
	for i := range j.Pods {
		p := &j.Pods[i]
		if p.Level != Dedicated || !p.Running || !p.Exists || slices.Contains(p.Events, spec.ReasonPromiseBroken) {
			continue
		}
		held := j.held(p.UID)
		if !j.Agent.Away {
			j.asReported(p, held)
		}
		wanted := p.MilliCPU
		if j.Agent.Away && p.Known >= 0 {
			wanted = min(p.Known, p.MilliCPU) // nobody could yet give it more
		}
		if int64(held.Len())*milliPerCPU < wanted || !j.Agent.Away && int64(held.Len())*milliPerCPU != wanted {
			j.says("promise: %s requests %dm, and runs on %v", p.Name, wanted, held)
		}
	}
}

// asReported compares a dedicated pod with what is reported of it.
func (j *judge) asReported(p *Pod, held topology.CPUSet) {
	var said topology.CPUSet
	moved := false
	for _, a := range j.Allocations {
		if a.UID == p.UID {
			said, moved = said.Union(a.CPUs), moved || a.Moved
		}
	}
	if said != held {
		j.says("promise: %s is reported to hold %v, and runs on %v", p.Name, said, held)
	}
	var promised topology.CPUSet
	for _, numa := range p.Promised {
		promised = promised.Union(j.NUMA[numa])
	}
	if p.Promised != nil && !moved && !held.Minus(promised).IsEmpty() {
		j.says("promise: %s was promised %v, runs on %v, and nothing says that it was moved", p.Name, promised, held)
	}
}

// noLoanOfTheAbsent: when the agent has been away for a while, reclaimed pods have no more of their own than the floor, and it is the watchdog's turn. When it is
// back, it is its turn.
func (j *judge) noLoanOfTheAbsent() {
	if !j.Agent.Away {
		if j.Turn != Agent {
			j.says("absent owner: the agent is there, and it is the turn of %q", j.Turn)
		}
		return
	}
	if !j.standsIn() {
		return
	}
	if j.Turn != Watchdog {
		j.says("absent owner: the agent has been away for %v, and it is the turn of %q", j.Agent.For.Round(time.Second), j.Turn)
	}
	for numa, own := range j.lent() {
		if own.Len() > j.Floor {
			j.says("absent owner: the agent has been away for %v, and reclaimed pods keep %v of NUMA node %d", j.Agent.For.Round(time.Second), own, numa)
		}
	}
}

// standsIn reports whether the agent has been away, and the watchdog there, for so long that this has taken its place.
func (j *judge) standsIn() bool {
	return j.Agent.Away && j.Agent.For >= MaxSilence && !j.Watchdog.Away && j.Watchdog.For >= MaxSilence
}

// lent is what reclaimed pods have for themselves of each NUMA node.
func (j *judge) lent() []topology.CPUSet {
	var online, lent topology.CPUSet
	for i := range j.Containers {
		switch c := &j.Containers[i]; {
		case c.New:
		case j.level(c.UID) == Reclaimed:
			lent = lent.Union(c.CPUs)
		case j.level(c.UID) == Shared || j.level(c.UID) == BestEffort:
			online = online.Union(c.CPUs)
		}
	}
	out := make([]topology.CPUSet, len(j.NUMA))
	for numa, cpus := range j.NUMA {
		out[numa] = lent.Minus(online).Intersection(cpus)
	}
	return out
}

// lends reports whether reclaimed pods have more for themselves than the floor.
func (j *judge) lends() bool {
	return slices.ContainsFunc(j.lent(), func(own topology.CPUSet) bool { return own.Len() > j.Floor })
}

// poolsHoldRequests: what pods that share request together fits onto the CPUs that they share, unless nothing is kept from them for reclaimed pods. While the
// online service is not busy, a loan may leave them less; the agent takes it back when they want it, and the watchdog when the agent is away.
func (j *judge) poolsHoldRequests() {
	if (!j.Busy || j.Agent.Away) && !j.standsIn() && j.lends() {
		return
	}
	var lent topology.CPUSet
	sets := make(map[string]topology.CPUSet) // of pods that share, by UID
	for i := range j.Containers {
		switch c := &j.Containers[i]; {
		case j.open(c):
		case j.level(c.UID) == Reclaimed:
			lent = lent.Union(c.CPUs)
		case j.level(c.UID) == Shared || j.level(c.UID) == BestEffort:
			sets[c.UID] = sets[c.UID].Union(c.CPUs)
		}
	}
	told := make(map[string]bool)
	for _, set := range sets {
		var requested int64
		var names []string
		for uid, other := range sets {
			if p := j.pods[uid]; other.Minus(set).IsEmpty() {
				requested += j.requests(p)
				names = append(names, p.Name)
			}
		}
		if int64(set.Len())*milliPerCPU >= requested || lent.Minus(set).IsEmpty() || told[set.String()] {
			continue
		}
		told[set.String()] = true
		slices.Sort(names)
		j.says("requests: %s request %dm, and have %v, while reclaimed pods have %v", strings.Join(names, " "), requested, set, lent)
	}
}

// requests is what a pod requests, as far as the agent could see.
func (j *judge) requests(p *Pod) int64 {
	if !j.Agent.Away {
		return p.MilliCPU
	}
	return max(min(p.Known, p.MilliCPU), 0)
}
