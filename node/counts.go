package node

import (
	"maps"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/scrape"
	"hilbert.dev/hilbert/node/shrink"
	"hilbert.dev/hilbert/node/storage"
)

// Counts are what the agent has done since it was started. All only grow.
type Counts struct {
	Ticks            uint64
	Written          uint64 // knobs
	Reverted         uint64 // of Written: somebody else had changed them
	RefusedKnobs     uint64
	EnforceSeconds   float64
	Updates          uint64 // of containers, through the runtime
	UpdatesFailed    uint64
	Unapplied        uint64 // containers that were created before those who had their CPUs were seen to be moved off
	Connections      uint64 // to the runtime
	Checkpoints      uint64
	CheckpointErrors uint64
	Reports          uint64
	ReportsFailed    uint64
	Vanished         uint64 // pods that were gone without the runtime's saying so
	Evictions        uint64
	EvictionsFailed  uint64
	Notes            map[string]uint64 // by reason
	Refused          map[string]uint64 // pods, by reason
	Withheld         map[string]uint64 // containers that were not made because of what their pod holds of devices, by reason
}

// State is a copy of what is worth measuring.
type State struct {
	Counts
	Allocated                allocate.Counts
	Connected, Synced, Ready bool
	Pods, Containers, Knobs  int
	Waiting                  int // messages
	Observations             uint64
	ObserveSeconds           float64
	Lost                     string // why the runtime is not connected
	// KubeletRead and KubeletUnread count answers of the kubelet as to which devices it gave to pods; KubeletDevicesFound and KubeletDevicesUnknown are those devices now.
	KubeletRead, KubeletUnread                 uint64
	KubeletDevicesFound, KubeletDevicesUnknown int
	// Colocation is what is said of lending; nil: nothing is.
	Colocation *spec.Colocation
	Evicting   evict.Counts
	Shrinking  shrink.Counts
	Stops      uint64 // pods that the agent stopped itself
	Scrapes    map[scrape.Outcome]uint64
	// Storage counts questions to the kubelet what pods hold of file systems; StorageKnown is of how many pods it is known now.
	Storage      map[storage.Outcome]uint64
	StorageKnown int
	// Steered counts pods by the name of their profile; SteeredPools is what their pools should have, in millicores.
	Steered      map[string]Steered
	SteeredPools map[string]int64
}

// State copies the agent's state; inside Ask.
func (a *Agent) State() State {
	n := a.node
	s := State{
		Counts: *n.counts, Allocated: n.manager.Report().Counts, Connected: n.runtime.connected, Synced: n.runtime.synced,
		Ready: len(n.events.problems) == 0, Pods: len(n.pods.byUID), Containers: len(n.pods.containers),
		Knobs: len(a.knobs.desired[0]) + len(a.knobs.desired[1]), Waiting: len(n.loop.inbox), Lost: n.runtime.why,
	}
	s.Colocation, s.Evicting, s.Stops = a.lending.colocation(time.Now(), a.eviction), a.eviction.state.Counts, a.eviction.stops
	s.Shrinking = a.memory.shrinker.Counts()
	if a.profiles.scraper != nil {
		s.Scrapes = a.profiles.scraper.Counts()
	}
	s.Storage, s.StorageKnown = maps.Clone(a.storage.counts), a.storage.reading.Known(time.Now())
	s.Steered, s.SteeredPools = a.lending.steered, maps.Clone(a.lending.demands)
	s.Notes, s.Refused, s.Withheld = maps.Clone(n.counts.Notes), maps.Clone(n.counts.Refused), maps.Clone(n.counts.Withheld)
	k := a.devices.kubelet
	all, found := k.assignments.DeviceCount()
	s.KubeletRead, s.KubeletUnread, s.KubeletDevicesFound, s.KubeletDevicesUnknown = k.good, k.bad, found, all-found
	s.Observations, s.ObserveSeconds = a.observer.totals()
	return s
}
