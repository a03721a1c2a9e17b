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
	Tick(at time.Duration, pods []enforce.Pod) (knobs []enforce.DesiredKnob, notes []allocate.Note)
	// Close is called when the agent ends. What protects online pods stays.
	Close()
}

// Adjustable is a Governor whose parameters may change while it runs. Adjust is called before each Tick, and must do nothing where they are as before.
type Adjustable interface {
	Adjust(p *spec.LendingParameters)
}

// governorController runs the governors of disks, network and caches.
type governorController struct {
	node  *nodeState
	busy  bool
	knobs []enforce.DesiredKnob  // as last returned
	notes map[allocate.Note]bool // as told
}

// Tick implements controller: it runs the governors on the pods that are here now, beside the loop, unless they are still at work.
func (g *governorController) Tick(in *inputs) (changed bool) {
	n := g.node
	if len(n.options.Governors) == 0 || g.busy || !n.loop.Running() || !n.lends() {
		return false
	}
	g.busy = true
	at, pods, parameters := in.now.Sub(n.started), g.pods(), n.options.Config.Lending.LendingParameters
	n.loop.Work(func(context.Context) {
		var knobs []enforce.DesiredKnob
		var notes []allocate.Note
		for _, governor := range n.options.Governors {
			if a, ok := governor.(Adjustable); ok {
				a.Adjust(&parameters)
			}
			wanted, said := governor.Tick(at, pods)
			knobs, notes = append(knobs, wanted...), append(notes, said...)
		}
		n.loop.Post(func() {
			g.busy, g.knobs = false, knobs
			g.note(notes)
			n.apply()
		})
	})
	return false
}

// pods lists the pods by UID.
func (g *governorController) pods() (out []enforce.Pod) {
	for _, p := range g.node.pods.sorted() {
		asked, pool, ok := g.node.manager.Pod(p.name.UID)
		if !ok || p.cgroup == "" {
			continue
		}
		level := asked.QoS.Level
		if pool == "" {
			level = spec.QoSDedicated
		}
		out = append(out, enforce.Pod{Cgroup: p.cgroup, Level: level})
	}
	return out
}

// note tells what does not work once, and again when it has worked in between.
func (g *governorController) note(notes []allocate.Note) {
	told := make(map[allocate.Note]bool, len(notes))
	for _, n := range notes {
		if told[n] = true; !g.notes[n] {
			g.node.events.note(spec.PodRef{}, n)
		}
	}
	g.notes = told
}

func (g *governorController) close() {
	for _, governor := range g.node.options.Governors {
		governor.Close()
	}
}
