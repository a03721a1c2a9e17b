package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/topology"
)

// placement is what we rule of a pod's placement. Where the kubelet gave a pod CPUs of its own, nothing.
func (a *Agent) placement(p *pod) (allocate.Placement, bool) {
	if p == nil {
		return allocate.Placement{}, false
	}
	out, ok := a.manager.Placement(p.name.UID)
	if a.options.Mode == spec.ModeKubelet && out.Pool == "" {
		out.CPUs, out.Mems = topology.CPUSet{}, topology.CPUSet{}
	}
	return out, ok
}

// apply makes what has been decided last: on disk first, then in the kernel, then in the runtime.
func (a *Agent) apply() {
	a.save()
	a.observer.watch(a.watched())
	fast, slow := a.desiredKnobs()
	if !slices.Equal(fast, a.knobs[0]) {
		a.knobs[0] = fast
		a.applied = a.fast.ask(knobRequest{knobs: fast, changed: true})
	}
	if !slices.Equal(slow, a.knobs[1]) {
		a.knobs[1] = slow
		a.slow.ask(knobRequest{knobs: slow, changed: true})
	}
	for _, c := range a.containers {
		if p, ok := a.placement(c.pod); ok && (p.CPUs != c.asked.CPUs || p.Mems != c.asked.Mems) {
			c.failures = 0
		}
	}
	a.updateRuntime()
}

// desiredKnobs lists the knobs that we want: fast ones, and those that move memory.
func (a *Agent) desiredKnobs() (fast, slow []desiredKnob) {
	for _, uid := range sortedKeys(a.pods) {
		pod := a.pods[uid]
		p, ok := a.placement(pod)
		if !ok {
			continue
		}
		if pod.cgroup != "" {
			fast = append(fast, a.podKnobs(pod, p)...)
		}
		rules := a.options.Mode == spec.ModeAgent // else it goes through the runtime alone, by which the kubelet writes too
		for _, cgroup := range append([]string{pod.cgroup}, pod.cgroups()...) {
			if cgroup == "" || !rules {
				continue
			}
			// The pod's own cgroup too: it holds the sandbox, and moves all its containers at one stroke.
			if !p.CPUs.IsEmpty() {
				fast = append(fast, desiredKnob{enforce.Knob{Cgroup: cgroup, File: enforce.CPUSet}, p.CPUs.String()})
			}
			if mems, ok := a.moved(pod.cgroup); ok {
				slow = append(slow, desiredKnob{enforce.Knob{Cgroup: cgroup, File: enforce.Mems}, mems})
			} else if !p.Mems.IsEmpty() {
				slow = append(slow, desiredKnob{enforce.Knob{Cgroup: cgroup, File: enforce.Mems}, p.Mems.String()})
			}
		}
		if p.OOMScoreAdj != nil {
			for _, cgroup := range pod.cgroups() {
				fast = append(fast, desiredKnob{enforce.Knob{Cgroup: cgroup, File: enforce.OOMScoreAdj}, strconv.Itoa(*p.OOMScoreAdj)})
			}
		}
	}
	if a.lends() {
		fast = append(fast, a.governors.knobs...)
	}
	moreFast, moreSlow := a.memoryKnobs()
	return append(fast, moreFast...), append(slow, moreSlow...)
}

// podKnobs are the knobs of a pod's own cgroup alone. cpu.idle belongs there: on a container the kernel would then refuse the weight that
// the runtime always writes, and on the kubelet's BestEffort cgroup the kubelet's. A pod that asks for CPU has a weight that the kubelet
// changes when it is resized, so only BestEffort pods are idle.
func (a *Agent) podKnobs(pod *pod, p allocate.Placement) []desiredKnob {
	if !pod.bestEffort {
		return nil
	}
	value := "0"
	if p.Idle {
		value = "1"
	}
	out := []desiredKnob{{enforce.Knob{Cgroup: pod.cgroup, File: enforce.CPUIdle}, value}}
	if p.Weight > 0 {
		out = append(out, desiredKnob{enforce.Knob{Cgroup: pod.cgroup, File: enforce.CPUWeight}, strconv.Itoa(p.Weight)})
	}
	return out
}

// cgroups are those of the pod's containers, in order.
func (p *pod) cgroups() []string {
	var out []string
	for _, id := range sortedKeys(p.containers) {
		if cgroup := p.containers[id].cgroup; cgroup != "" {
			out = append(out, cgroup)
		}
	}
	return out
}

// enforced takes a writer's report.
func (a *Agent) enforced(r *knobResult) {
	c := &a.counts
	c.Written += uint64(r.outcome.Written)
	c.Reverted += uint64(r.outcome.Reverted)
	c.RefusedKnobs += uint64(len(r.outcome.Refused))
	c.EnforceSeconds += r.took.Seconds()
	for _, err := range r.errs {
		c.RefusedKnobs++
		a.log.Error("no knob", "err", err) // a mistake of ours
	}
	for _, refused := range r.outcome.Refused {
		a.log.Warn("the kernel refuses a value", "knob", refused.Knob.Path(), "value", refused.Value, "err", refused.Err)
	}
	switch {
	case len(r.outcome.Refused) > 0:
		first := r.outcome.Refused[0]
		a.problems.set(spec.ReasonKnobRefused, fmt.Sprintf("%s = %s: %v", first.Knob.Path(), first.Value, first.Err))
	case r.tick && r.outcome.BackingOff == 0:
		a.problems.resolve(spec.ReasonKnobRefused)
	}
}

// save writes the checkpoint if it has changed. Where that fails the node goes on: after a restart what runs is adopted.
func (a *Agent) save() {
	if a.ports.Checkpoint == nil {
		return
	}
	data, err := json.Marshal(a.manager.Checkpoint())
	if err == nil && bytes.Equal(data, a.saved) {
		return
	}
	if err == nil {
		err = a.ports.Checkpoint.Save(data)
	}
	if err != nil {
		a.counts.CheckpointErrors++
		a.problems.set(spec.ReasonCheckpointLost, err.Error())
		a.log.Error("the checkpoint cannot be written; after a restart what runs is adopted", "err", err)
		return
	}
	a.saved = data
	a.counts.Checkpoints++
	a.problems.resolve(spec.ReasonCheckpointLost)
}

// restore takes the last checkpoint over, as far as it can be read.
func (a *Agent) restore() {
	if a.ports.Checkpoint == nil {
		return
	}
	data, err := a.ports.Checkpoint.Load()
	if err == nil && data == nil {
		return
	}
	checkpoint := &allocate.Checkpoint{}
	if err == nil {
		err = json.Unmarshal(data, checkpoint)
	}
	if err != nil {
		a.counts.CheckpointErrors++
		a.log.Warn("the checkpoint cannot be read; what runs is adopted", "err", err)
		return
	}
	a.notes(PodName{}, a.manager.Restore(checkpoint))
	for _, c := range a.manager.Report().Closed {
		a.closedZones = append(a.closedZones, closedZone{c.Zone, time.Now()})
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
