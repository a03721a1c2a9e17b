package cluster_test

import (
	"fmt"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// offer says what a pod would be given of a node, or commits it; with kept that which was offered when it was last asked.
func offer(store *cluster.Store, d *datadriven.TestData) string {
	uid, node := facts.UID(d.CmdArgs[0].Key), d.CmdArgs[1].Key
	slot, class := store.Slot(node), store.Pod(uid).Class
	grant, ok := store.Offer(slot, class)
	if d.HasArg("kept") {
		grant, ok = offered[uid], true
	}
	offered[uid] = grant
	if d.Cmd == "offer" {
		text := fmt.Sprintf("%v %v: gpu %q nic %q NUMA %q", ok, rules.Fits(&store.State, slot, class), grant.GPUText(), grant.NICText(), grant.NUMANodes)
		if grant.Resources != "" {
			text += " " + string(grant.Resources)
		}
		return text + "\n"
	}
	plan := &cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: node, Grant: grant}}}
	before := world(store)
	verdict := store.Commit(plan, rules.Commits)
	if after := world(store); !verdict.Committed && after != before {
		return "a rejected Plan left something behind: " + after
	}
	return verdict.String() + "\n"
}

// offered is what was offered to each pod when it was last asked.
var offered = make(map[facts.UID]topology.Grant)
