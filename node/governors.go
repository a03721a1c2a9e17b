package node

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/store"
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

// MemoryObserver is a Governor that knows how full the memory's bandwidth is. It is asked after Tick, by the same goroutine.
type MemoryObserver interface {
	// MemoryFull reports whether no more is to be lent, because what reclaimed pods move fills the memory and they cannot be slowed down further.
	MemoryFull() bool
}

// NetworkObserver is a Governor that knows how the way off the node stands. It is asked after Tick, by the same goroutine.
type NetworkObserver interface {
	Network() NetworkUse
}

// NetworkUse is what a NetworkObserver knows: how the uplinks stand, and what reclaimed pods send off the node at least, in bytes per second, by cgroup.
type NetworkUse struct {
	evict.Network
	Sent map[string]advise.Sample
}

// governorController runs the governors of disks, network and caches.
type governorController struct {
	node  *nodeState
	busy  bool
	knobs []enforce.DesiredKnob  // as last returned
	notes map[allocate.Note]bool // as told
	// uplinks are those of the Node's annotation; empty: it names none. uplinksFault is what is wrong with it.
	// They are on disk, so that an agent that starts while nobody answers does not take others.
	uplinks      []string
	uplinksFault error
	saver        *store.Saver
	// network and memoryFull are as last seen, at that time.
	network    NetworkUse
	memoryFull bool
	seen       time.Time
}

// newGovernorController returns a controller that goes on from the uplinks that are on disk.
func newGovernorController(n *nodeState) *governorController {
	g := &governorController{node: n}
	g.saver = store.NewSaver(n.Loop, n.Now, n.ports.Uplinks, func(err error) {
		if err != nil {
			n.Log.Warn("the uplinks that the Node names cannot be kept; an agent that starts without the API server takes those of its configuration", "err", err)
		}
	})
	g.restore()
	return g
}

// restore goes on from what is on disk.
func (g *governorController) restore() {
	if g.node.ports.Uplinks == nil {
		return
	}
	data, err := g.node.ports.Uplinks.Load()
	var kept []string
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &kept)
	}
	if err == nil {
		_, err = spec.ParseUplinks(kept)
	}
	if err != nil {
		g.node.Log.Warn("the uplinks that were kept cannot be read; until the Node is read, those of the configuration count", "err", err)
		return
	}
	g.uplinks = kept
}

// Tick implements ticker: it runs the governors on the pods that are here now, beside the loop, unless they are still at work.
func (g *governorController) Tick(now time.Time) (changed bool) {
	n := g.node
	if len(n.options.Governors) == 0 || g.busy || !n.Loop.Running() || !n.Lends() {
		return false
	}
	g.busy = true
	at, pods, parameters, faults := now.Sub(n.Started), g.pods(), n.options.Config.Lending.LendingParameters, g.faults()
	if len(g.uplinks) > 0 {
		parameters.Network.Uplinks = g.uplinks
	}
	n.Loop.Work(func(context.Context) {
		var knobs []enforce.DesiredKnob
		var notes []allocate.Note
		var network NetworkUse
		full := false
		for _, governor := range n.options.Governors {
			if a, ok := governor.(Adjustable); ok {
				a.Adjust(&parameters)
			}
			wanted, said := governor.Tick(at, pods)
			knobs, notes = append(knobs, wanted...), append(notes, said...)
			if o, ok := governor.(NetworkObserver); ok {
				network = o.Network()
			}
			if o, ok := governor.(MemoryObserver); ok {
				full = full || o.MemoryFull()
			}
		}
		n.Loop.Post(func() {
			g.busy, g.knobs, g.network, g.memoryFull, g.seen = false, knobs, network, full, now
			g.note(append(notes, faults...))
			n.Apply()
		})
	})
	return false
}

// Annotated says what annotations the Node has. They must not be changed afterwards.
func (a *Agent) Annotated(annotations map[string]string) {
	a.node.Loop.Post(func() { a.governors.annotated(annotations) })
}

// annotated takes the annotations of the Node, which are about its uplinks. What is wrong is told, and the uplinks stay as they are.
func (g *governorController) annotated(annotations map[string]string) {
	list, err := spec.UplinksOf(annotations)
	if g.uplinksFault = err; err != nil || slices.Equal(list, g.uplinks) {
		return
	}
	g.uplinks = list
	data, err := json.Marshal(list)
	if err != nil {
		g.node.Log.Error("the uplinks cannot be kept", "err", err) // a mistake of ours
		return
	}
	g.saver.Save(data, g.node.Now())
}

// faults are what is wrong with what the Node says of its uplinks.
func (g *governorController) faults() []allocate.Note {
	if g.uplinksFault == nil {
		return nil
	}
	return []allocate.Note{{Reason: spec.ReasonUplinksInvalid, Message: "the Node's annotation " + g.uplinksFault.Error() + "; the uplinks stay as they were"}}
}

// maxGovernorAge is how old what a governor has seen may be that still counts.
const maxGovernorAge = 10 * time.Second

// networkUse is what was seen last of the network, unless that is too long ago.
func (g *governorController) networkUse(now time.Time) NetworkUse {
	if now.Sub(g.seen) > maxGovernorAge {
		return NetworkUse{}
	}
	return g.network
}

// stopsGrowth reports whether nothing more is to be lent, because memory is full.
func (g *governorController) stopsGrowth(now time.Time) bool {
	return g.memoryFull && now.Sub(g.seen) <= maxGovernorAge
}

// pods lists the pods by UID.
func (g *governorController) pods() (out []enforce.Pod) {
	for _, p := range g.node.Pods.Sorted() {
		asked, pool, ok := g.node.Manager.Pod(p.Ref.UID)
		if !ok || p.Cgroup == "" {
			continue
		}
		level := asked.QoS.Level
		if pool == "" {
			level = spec.QoSDedicated
		}
		if p.TrafficFault != nil {
			g.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonInvalidQoS, Message: p.TrafficFault.Error()})
			p.TrafficFault = nil // it is told once
		}
		out = append(out, enforce.Pod{Cgroup: p.Cgroup, Level: level, Background: p.Background})
	}
	return out
}

// note tells what does not work once, and again when it has worked in between.
func (g *governorController) note(notes []allocate.Note) {
	told := make(map[allocate.Note]bool, len(notes))
	for _, n := range notes {
		if told[n] = true; !g.notes[n] {
			g.node.Events.Note(spec.PodRef{}, n)
		}
	}
	g.notes = told
}

func (g *governorController) close() {
	for _, governor := range g.node.options.Governors {
		governor.Close()
	}
}
