package node

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/pods"
)

// owner is the owner of these knobs in the tables.
const owner enforce.Owner = "allocate"

// knobController keeps the kernel's knobs as they should be. There are two writers, so that what is quick never waits for what moves memory: fast writes
// all knobs but those that slow writes, which are cpuset.mems and the limits of memory.
type knobController struct {
	node         *nodeState
	fast, slow   *enforce.Writer
	desired      [2][]enforce.DesiredKnob // as last given to fast and slow
	applied      <-chan struct{}          // closed when the kernel has the knobs of fast
	governors    *governorController
	memory       *memoryController
	bursts       *burstController
	interference *interferenceController
}

func newKnobController(n *nodeState, governors *governorController, memory *memoryController, bursts *burstController, interference *interferenceController) *knobController {
	k := &knobController{node: n, governors: governors, memory: memory, bursts: bursts, interference: interference}
	written := func(r enforce.WriteResult) { n.Loop.Post(func() { k.written(&r) }) }
	k.fast = enforce.NewWriter(n.options.Kernel, owner, written)
	k.slow = enforce.NewWriter(n.options.Kernel, owner, written)
	return k
}

// Tick implements ticker: both writers compare everything with the kernel.
func (k *knobController) Tick(time.Time) (changed bool) {
	if k.interference.makeWay() {
		k.update()
	}
	k.fast.Ask(enforce.WriteRequest{Tick: true})
	k.slow.Ask(enforce.WriteRequest{Tick: true})
	return false
}

// update hands the writers the knobs that are desired now, where they have changed.
func (k *knobController) update() {
	fast, slow := k.knobs()
	if !slices.Equal(fast, k.desired[0]) {
		k.desired[0] = fast
		k.applied = k.fast.Ask(enforce.WriteRequest{Knobs: fast, Changed: true})
	}
	if !slices.Equal(slow, k.desired[1]) {
		k.desired[1] = slow
		k.slow.Ask(enforce.WriteRequest{Knobs: slow, Changed: true})
	}
}

// settled reports whether the kernel has the knobs of fast.
func (k *knobController) settled() bool {
	select {
	case <-k.applied:
		return true
	default:
		return k.applied == nil
	}
}

// recheck has cgroups compared with what is desired, at once.
func (k *knobController) recheck(cgroups ...string) {
	if len(cgroups) > 0 {
		k.applied = k.fast.Ask(enforce.WriteRequest{Recheck: cgroups})
		k.slow.Ask(enforce.WriteRequest{Recheck: cgroups})
	}
}

// knobs lists the desired knobs: fast ones, and those that move memory.
func (k *knobController) knobs() (fast, slow []enforce.DesiredKnob) {
	for _, pod := range k.node.Pods.Sorted() {
		p, ok := k.node.Placement(pod)
		if !ok {
			continue
		}
		if pod.Cgroup != "" {
			fast = append(fast, idleKnobs(pod, p)...)
		}
		places := k.node.options.Mode == spec.ModeAgent // else it goes through the runtime alone, by which the kubelet writes too
		for _, cgroup := range append([]string{pod.Cgroup}, pod.Cgroups()...) {
			if cgroup == "" || !places {
				continue
			}
			// The pod's own cgroup too: it holds the sandbox, and moves all its containers at one stroke.
			if !p.CPUs.IsEmpty() {
				fast = append(fast, enforce.Desire(cgroup, enforce.CPUSet, p.CPUs.String()))
			}
			if mems, ok := k.memory.moveTarget(pod.Cgroup); ok {
				slow = append(slow, enforce.Desire(cgroup, enforce.Mems, mems))
			} else if !p.Mems.IsEmpty() {
				slow = append(slow, enforce.Desire(cgroup, enforce.Mems, p.Mems.String()))
			}
		}
		if p.Pool == spec.PoolReclaimed {
			fast = append(fast, k.node.oomKnobs(pod)...)
		}
	}
	fast = append(append(append(fast, k.node.qosKnobs()...), k.bursts.knobs()...), k.interference.knobs()...)
	if k.node.Lends() {
		fast = append(fast, k.governors.knobs...)
	}
	moreFast, moreSlow := k.memory.knobs()
	return append(fast, moreFast...), append(slow, moreSlow...)
}

// idleKnobs are the knobs of a pod's own cgroup alone. cpu.idle belongs there: on a container the kernel would then refuse the weight that
// the runtime always writes, and on the kubelet's BestEffort cgroup the kubelet's. A pod that asks for CPU has a weight that the kubelet
// changes when it is resized, so only BestEffort pods are idle.
func idleKnobs(pod *pods.Pod, p allocate.Placement) []enforce.DesiredKnob {
	if !pod.BestEffort {
		return nil
	}
	value := "0"
	if p.Idle {
		value = "1"
	}
	out := []enforce.DesiredKnob{enforce.Desire(pod.Cgroup, enforce.CPUIdle, value)}
	if p.Weight > 0 {
		out = append(out, enforce.Desire(pod.Cgroup, enforce.CPUWeight, strconv.Itoa(p.Weight)))
	}
	return out
}

// written takes a writer's result.
func (k *knobController) written(r *enforce.WriteResult) {
	c, log := k.node.Counts, k.node.Log
	c.Written += uint64(r.Outcome.Written)
	c.Reverted += uint64(r.Outcome.Reverted)
	c.RefusedKnobs += uint64(len(r.Outcome.Refused))
	c.EnforceSeconds += r.Took.Seconds()
	for _, err := range r.Errs {
		c.RefusedKnobs++
		log.Error("no knob", "err", err) // a mistake of ours
	}
	for _, refused := range r.Outcome.Refused {
		log.Warn("the kernel refuses a value", "knob", refused.Knob.Path(), "value", refused.Value, "err", refused.Err)
	}
	problems := k.node.Events.Problems
	switch {
	case len(r.Outcome.Refused) > 0:
		first := r.Outcome.Refused[0]
		problems.Set(spec.ReasonKnobRefused, fmt.Sprintf("%s = %s: %v", first.Knob.Path(), first.Value, first.Err))
	case r.Tick && r.Outcome.BackingOff == 0:
		problems.Resolve(spec.ReasonKnobRefused)
	}
}
