package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestStore replays testdata/*: what events do to the ledger, and what Commit takes and rejects. The invariants are verified, and a
// snapshot that has followed the log from the start is compared with a fresh copy, after every command.
func TestStore(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		store := cluster.NewStore()
		follower, optimistic, elsewhere := cluster.NewSnapshot(), cluster.NewOptimisticSnapshot(), newCopied(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := run(t, store, d)
			if err := store.Verify(); err != nil {
				d.Fatalf(t, "invariant: %v", err)
			}
			fresh := cluster.NewSnapshot()
			fresh.Advance(store)
			follower.Advance(store)
			if err := sameRows(&follower.State, &fresh.State); err != nil {
				d.Fatalf(t, "a snapshot that followed the log differs from a fresh one: %v", err)
			}
			optimistic.Advance(store)
			if err := sameRows(&optimistic.State, &fresh.State); err != nil {
				d.Fatalf(t, "an optimistic snapshot differs from a fresh one: %v", err)
			}
			if _, err := elsewhere.all(store); err != nil {
				d.Fatalf(t, "a copy in another process: %v", err)
			}
			if got, want := cluster.Columns(&elsewhere.replica.Snapshot().State, nil), cluster.Columns(&fresh.State, nil); got != want {
				d.Fatalf(t, "a copy in another process differs:\n%s\nthe ledger:\n%s", got, want)
			}
			return out
		})
	})
}

func run(t *testing.T, store *cluster.Store, d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		return effects(store.Apply(facts.NodeUpserted{Node: script.Node(t, d)}))
	case "rmnode":
		return effects(store.Apply(facts.NodeRemoved{Name: d.CmdArgs[0].Key}))
	case "pod":
		return effects(store.Apply(facts.PodUpserted{Pod: script.Pod(t, d)}))
	case "report":
		return effects(store.Apply(script.Report(t, d)))
	case "rmreport":
		return effects(store.Apply(facts.NodeReportRemoved{Node: d.CmdArgs[0].Key}))
	case "rmpod":
		return effects(store.Apply(facts.PodRemoved{UID: facts.UID(d.CmdArgs[0].Key)}))
	case "relist-pods": // keeps only the pods named, as they are pending
		var pods []facts.Pod
		for _, arg := range d.CmdArgs {
			pods = append(pods, facts.Pod{UID: facts.UID(arg.Key), Ours: true, Requirements: &facts.Requirements{}})
		}
		return effects(store.Apply(facts.PodsListed{Pods: pods}))
	case "relist-nodes":
		var nodes []*facts.Node
		for _, arg := range d.CmdArgs {
			nodes = append(nodes, store.Node(store.Slot(arg.Key)))
		}
		return effects(store.Apply(facts.NodesListed{Nodes: nodes}))
	case "commit":
		before := world(store)
		verdict := store.Commit(plan(t, store, d), rules.Commits)
		if after := world(store); !verdict.Committed && after != before {
			d.Fatalf(t, "a rejected Plan left something behind; before:\n%s\nafter:\n%s", before, after)
		}
		return verdict.String() + "\n"
	case "offer", "place": // pod and node; place commits what is offered, or with kept what was offered before
		return offer(store, d)
	case "release":
		return fmt.Sprintln(store.Release(facts.UID(d.CmdArgs[0].Key)))
	case "recheck":
		return store.Recheck(facts.UID(d.CmdArgs[0].Key), rules.Commits) + "\n"
	case "confirm":
		store.Confirm(facts.UID(d.CmdArgs[0].Key))
		return ""
	case "dump":
		return script.Dump(store)
	case "overcommitted":
		return strings.Join(store.Overcommitted(), " ") + "\n"
	}
	return runBooks(t, store, d)
}

// runBooks runs the commands about units, queues and reservations.
func runBooks(t *testing.T, store *cluster.Store, d *datadriven.TestData) string {
	switch d.Cmd {
	case "unit":
		return effects(store.Apply(facts.UnitUpserted{Unit: script.Unit(t, d)}))
	case "rmunit":
		return effects(store.Apply(facts.UnitRemoved{Name: script.Unit(t, d).UnitName}))
	case "units":
		return script.Units(store)
	case "queue":
		return effects(store.Apply(facts.QueueUpserted{Queue: script.Queue(t, d)}))
	case "rmqueue":
		return effects(store.Apply(facts.QueueRemoved{Name: d.CmdArgs[0].Key}))
	case "relist-queues": // keeps only the queues named, as they are
		var queues []*facts.Queue
		for _, arg := range d.CmdArgs {
			queues = append(queues, store.Quota().Queue(arg.Key).Facts)
		}
		return effects(store.Apply(facts.QueuesListed{Queues: queues}))
	case "reservation":
		return effects(store.Apply(facts.ReservationUpserted{Reservation: script.Reservation(t, d)}))
	case "rmreservation":
		return effects(store.Apply(facts.ReservationRemoved{UID: facts.UID(d.CmdArgs[0].Key)}))
	case "reservations":
		return script.Reservations(store)
	case "end-places": // at a time, in seconds
		var now int
		d.ScanArgs(t, "at", &now)
		return effects(store.EndPlaces(int64(now) * 1e9))
	case "namespace":
		return effects(store.Apply(facts.NamespaceUpserted{Namespace: script.Namespace(t, d)}))
	case "rmnamespace":
		return effects(store.Apply(facts.NamespaceRemoved{Name: d.CmdArgs[0].Key}))
	case "queues":
		return script.Queues(store)
	case "exceeded":
		var b strings.Builder
		for _, q := range store.Exceeded() {
			fmt.Fprintln(&b, q.Path())
		}
		return b.String()
	case "reserve": // by=0 opens them
		var slots []cluster.Slot
		var by int
		for _, arg := range d.CmdArgs {
			if arg.Key == "by" {
				arg.Scan(t, 0, &by)
				continue
			}
			slots = append(slots, store.Slot(arg.Key))
		}
		store.Reserve(slots, cluster.ReservationID(by))
		return ""
	case "reserved":
		return reserved(store)
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func reserved(store *cluster.Store) string {
	var b strings.Builder
	for i := range store.Slots() {
		if by := store.Reservation(cluster.Slot(i)); by != cluster.NoReservation {
			fmt.Fprintf(&b, "%s by %d\n", store.Node(cluster.Slot(i)).Name, by)
		}
	}
	return b.String()
}

// world renders all that a rejected Plan must leave as it was: that nobody was woken in vain, too.
func world(store *cluster.Store) string {
	var b strings.Builder
	b.WriteString(script.Dump(store) + script.Queues(store) + script.Units(store) + reserved(store) + script.Reservations(store))
	store.Quota().Root().Each(func(q *quota.Queue) { fmt.Fprintf(&b, "%s eased %d\n", q.Path(), q.Eased()) })
	return b.String()
}

func plan(t *testing.T, store *cluster.Store, d *datadriven.TestData) *cluster.Plan {
	p := &cluster.Plan{}
	for _, arg := range d.CmdArgs { // pod=node or pod=(node,gpu,gpu...), victims=(pod,pod...), reclaims, through=reservation
		if arg.Key == "victims" {
			for _, uid := range arg.Vals {
				p.Victims = append(p.Victims, facts.UID(uid))
			}
			continue
		}
		if arg.Key == "takes" {
			for _, uid := range arg.Vals {
				p.Takes = append(p.Takes, facts.UID(uid))
			}
			continue
		}
		if arg.Key == "reclaims" {
			p.Reclaims = true
			continue
		}
		if arg.Key == "through" {
			var by int
			arg.Scan(t, 0, &by)
			p.Through = cluster.ReservationID(by)
			continue
		}
		uid := facts.UID(arg.Key)
		placement := cluster.Placement{Pod: uid, Node: arg.Vals[0]}
		if len(arg.Vals) > 1 {
			placement.Grant = planned(t, d, strings.Join(arg.Vals[1:], ","), store.Pod(uid).Class)
		}
		p.Placements = append(p.Placements, placement)
	}
	return p
}

// planned reads what a placement grants: NUMA nodes, or GPUs.
func planned(t *testing.T, d *datadriven.TestData, text string, c *cluster.Class) (grant topology.Grant) {
	var err error
	if strings.Contains(text, ":") {
		grant.NUMANodes, err = topology.ParseNUMAGrant(strings.ReplaceAll(text, "+", ","))
	} else {
		err = grant.ParseGPUs(text, &c.GPU)
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return grant
}

func effects(list []cluster.Effect) string {
	var b strings.Builder
	for _, e := range list {
		name := map[cluster.EffectKind]string{cluster.Waits: "waits", cluster.Held: "held", cluster.Settled: "settled"}[e.Kind]
		if e.Gone {
			name += " (gone)"
		}
		fmt.Fprintf(&b, "%s %s\n", e.Pod.UID, name)
	}
	return b.String()
}

func sameRows(a, b *cluster.State) error {
	if a.Slots() != b.Slots() {
		return fmt.Errorf("%d slots, want %d", a.Slots(), b.Slots())
	}
	for i := range a.Slots() {
		slot := cluster.Slot(i)
		if a.Node(slot) != b.Node(slot) || *a.GPUs(slot) != *b.GPUs(slot) || fmt.Sprint(a.Ports(slot)) != fmt.Sprint(b.Ports(slot)) {
			return fmt.Errorf("slot %d: node, GPUs or ports differ", slot)
		}
		shapeA, freeA := a.NUMANodes(slot)
		if shapeB, freeB := b.NUMANodes(slot); *shapeA != *shapeB || *freeA != *freeB {
			return fmt.Errorf("slot %d: NUMA nodes differ", slot)
		}
		if x, y := resourcesText(a, slot), resourcesText(b, slot); x != y {
			return fmt.Errorf("slot %d: what plugins bring differs: %s, want %s", slot, x, y)
		}
		for kind := range b.Kinds() {
			if a.Free(slot, resource.Kind(kind)) != b.Free(slot, resource.Kind(kind)) || a.Requested(slot, resource.Kind(kind)) != b.Requested(slot, resource.Kind(kind)) {
				return fmt.Errorf("slot %d: %s differs", slot, b.KindName(resource.Kind(kind)))
			}
		}
	}
	return nil
}
