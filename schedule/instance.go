package schedule

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/profiles"
)

// instance is one place replica: a snapshot of the ledger, which may lag behind it, and what decides on it. Several instances propose Plans
// to the one binder; a Plan that the ledger has overtaken is rejected there.
type instance struct {
	number   int
	snapshot *cluster.Snapshot
	placers  *profiles.Placers
	part     uint8 // the partition that it looks at first, where the nodes are divided
	divided  bool
}

// place chooses a node for a single pod: of its own partition, and of all nodes where none of these fits.
func (in *instance) place(decider *profiles.Decider, class *cluster.Class) (index.Choice, bool) {
	if in.divided {
		if choice, ok := decider.PlaceIn(in.part, class); ok {
			return choice, true
		}
	}
	return decider.Place(class)
}

func newInstance(number int, store *cluster.Store, snapshot *cluster.Snapshot, set *profiles.Set, cfg *spec.Scheduling) *instance {
	// Each instance breaks ties its own way, so that instances on equal snapshots do not all want the same node.
	seed := cfg.Seed + uint64(number)*0x9e3779b97f4a7c15
	return &instance{number: number, snapshot: snapshot, placers: profiles.NewPlacers(set, store, snapshot, profiles.Options{
		Seed: seed, MaxIndexes: cfg.MaxClassIndexes, MaxCostIndexes: maxCostIndexes, Levels: cfg.Topology.Levels,
	})}
}

// plan makes a Plan for one pod.
func (in *instance) plan(pod *cluster.Pod, choice index.Choice) *cluster.Plan {
	return &cluster.Plan{
		Placements: []cluster.Placement{{Pod: pod.UID, Node: in.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}},
		Revision:   in.snapshot.Revision(), Scheduler: in.number,
	}
}

// unitPlan makes a Plan for members of a unit.
func (in *instance) unitPlan(placed []pack.MemberChoice) *cluster.Plan {
	plan := &cluster.Plan{Revision: in.snapshot.Revision(), Scheduler: in.number, Placements: make([]cluster.Placement, len(placed))}
	for i := range placed {
		plan.Placements[i] = cluster.Placement{Pod: placed[i].Pod.UID, Node: in.snapshot.Node(placed[i].Slot).Name, Grant: placed[i].Grant}
	}
	return plan
}
