package node

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/node/watchdog"
	"hilbert.dev/hilbert/topology"
)

// beatEvery is how often the agent says that it lives.
const beatEvery = time.Second

// Absence is what lies between the agent and its watchdog.
type Absence struct {
	Directory watchdog.Directory
	// Kernel writes knobs while it is the agent's turn; it is Options.Kernel too.
	Kernel *watchdog.Fenced
	// Plan keeps the plan.
	Plan store.Store
}

// absenceController says each second that the agent lives, leaves with each change of the pools a plan for the time when it does not, and has the turn to
// write knobs. It takes the turn when it knows what runs, and takes it back when the watchdog had it. An agent that was stopped notices at its next
// write, which is refused.
type absenceController struct {
	node    *nodeState
	with    *Absence // nil: there is no watchdog
	lending *lendingController
	devices *devices.Injector
	knobs   *knobController
	saver   *store.Saver
	beats   uint64
}

func newAbsenceController(n *nodeState, with *Absence, lending *lendingController, devices *devices.Injector, knobs *knobController) *absenceController {
	a := &absenceController{node: n, with: with, lending: lending, devices: devices, knobs: knobs, beats: uint64(n.Now().UnixNano())}
	if with != nil {
		a.saver = store.NewSaver(n.Loop, n.Now, with.Plan, func(err error) {
			if err != nil {
				n.Log.Error("the plan for the agent's absence cannot be written", "err", err)
			}
		})
	}
	return a
}

// hold takes the turn if it is not the agent's. If the watchdog had it, nothing is lent any more: what comes first is what the plan says too.
func (a *absenceController) hold() {
	if a.with == nil || a.with.Kernel.Holds() || !a.node.Runtime.Connected {
		return
	}
	seen, err := a.with.Directory.Turn()
	if err == nil {
		if seen.Owner == watchdog.Watchdog {
			a.lending.giveBack()
			a.node.Manager.Pools.SetReclaimed([topology.MaxNUMANodes]int{})
			a.node.Log.Warn("the watchdog stood in for this agent; nothing is lent until the laws lend again")
		}
		seen, err = a.with.Directory.Take(seen, watchdog.Agent)
	}
	if err != nil {
		a.node.Events.Problems.Set(spec.ReasonKnobRefused, err.Error())
		return
	}
	a.with.Kernel.Took(seen)
	a.knobs.recheck(a.cgroups()...)
}

// cgroups are those of all pods.
func (a *absenceController) cgroups() (out []string) {
	for _, p := range a.node.Pods.Sorted() {
		if p.Cgroup != "" {
			out = append(out, p.Cgroup)
		}
	}
	return out
}

// beat says that the agent lives. One that does not know what runs says nothing: it keeps no promise.
func (a *absenceController) beat() {
	if a.with == nil || !a.node.Runtime.Synced {
		return
	}
	held := a.with.Kernel.Holds()
	if a.hold(); !held && a.with.Kernel.Holds() {
		a.node.Apply()
	}
	a.beats++
	if err := a.with.Directory.Beat(a.beats); err != nil {
		a.node.Log.Error("the watchdog cannot be told that the agent lives", "err", err)
	}
}

// leave writes the plan, if it has changed.
func (a *absenceController) leave(now time.Time) {
	if a.with != nil && a.node.Runtime.Synced {
		a.saver.Save(a.plan().Encode(), now)
	}
}

// plan is what holds while the agent is silent: the CPUs of the pods that share, as if nothing were lent, and those of the kubelet's classes, for pods that come
// meanwhile. Other pods keep what they have.
func (a *absenceController) plan() (out watchdog.Plan) {
	out.GPUs = a.devices.Ours()
	if a.node.options.Mode != spec.ModeAgent {
		return out
	}
	a.node.Manager.WithoutLoan(func() {
		for _, k := range a.node.qosKnobs() {
			out.CPUs = append(out.CPUs, watchdog.CgroupCPUs{Cgroup: k.Cgroup, CPUs: k.Value})
		}
		for _, pod := range a.node.Pods.Sorted() {
			p, ok := a.node.Placement(pod)
			if !ok || p.Pool == "" || p.Pool == spec.PoolSystem || p.CPUs.IsEmpty() {
				continue
			}
			for _, cgroup := range append([]string{pod.Cgroup}, pod.Cgroups()...) {
				if cgroup != "" {
					out.CPUs = append(out.CPUs, watchdog.CgroupCPUs{Cgroup: cgroup, CPUs: p.CPUs.String()})
				}
			}
		}
	})
	return out
}
