package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
)

// Governor keeps one resource of the node, as disks or the network, between online and reclaimed pods. It is called at each tick, beside the loop,
// by one goroutine at a time, and may take its time.
type Governor interface {
	// Tick returns the knobs that it wants held, all of them, and what does not work, the same words as long as it does not.
	Tick(at time.Duration, pods []GovernedPod) (knobs []GovernedKnob, notes []allocate.Note)
	// Close is called when the agent ends. What protects online pods stays.
	Close()
}

// GovernedPod is a pod whose cgroup is there.
type GovernedPod struct {
	Cgroup string
	Level  spec.QoSLevel
}

// GovernedKnob is a knob and its value.
type GovernedKnob struct {
	enforce.Knob
	Value string
}

// governors is the loop's part of it.
type governors struct {
	busy  bool
	knobs []desiredKnob
	notes map[allocate.Note]bool // as told
}

// tickGovernors has the governors look at the pods that are here now.
func (a *Agent) tickGovernors(now time.Time) {
	if len(a.options.Governors) == 0 || a.governors.busy || a.work == nil || !a.lends() {
		return
	}
	a.governors.busy = true
	at, pods := now.Sub(a.started), a.governedPods()
	a.work(func(context.Context) {
		var knobs []desiredKnob
		var notes []allocate.Note
		for _, g := range a.options.Governors {
			wanted, said := g.Tick(at, pods)
			notes = append(notes, said...)
			for _, k := range wanted {
				knobs = append(knobs, desiredKnob{k.Knob, k.Value})
			}
		}
		a.post(func() {
			a.governors.busy, a.governors.knobs = false, knobs
			a.noteGovernors(notes)
			a.apply()
		})
	})
}

// governedPods lists the pods by UID.
func (a *Agent) governedPods() (out []GovernedPod) {
	for _, uid := range sortedKeys(a.pods) {
		p := a.pods[uid]
		asked, pool, ok := a.manager.Pod(uid)
		if !ok || p.cgroup == "" {
			continue
		}
		level := asked.QoS.Level
		if pool == "" {
			level = spec.QoSDedicated
		}
		out = append(out, GovernedPod{Cgroup: p.cgroup, Level: level})
	}
	return out
}

// noteGovernors tells what does not work once, and again when it has worked in between.
func (a *Agent) noteGovernors(notes []allocate.Note) {
	told := make(map[allocate.Note]bool, len(notes))
	for _, n := range notes {
		if told[n] = true; !a.governors.notes[n] {
			a.note(PodName{}, n)
		}
	}
	a.governors.notes = told
}
