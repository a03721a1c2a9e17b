package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// TestReclaim goes through who may be a victim, rule by rule, and who is chosen. Each decision is committed in the ledger.
func TestReclaim(t *testing.T) {
	datadriven.Walk(t, "testdata/reclaim", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, reclaimScript)
	})
}

// reclaimScript asks for the pods named by of, need of them (default: all): evict says who has to leave, ifgone whose departure would do.
func reclaimScript(t *testing.T, d *datadriven.TestData) string {
	store := cluster.NewStore()
	for line := range strings.Lines(d.Input) {
		applyLine(t, d, store, strings.TrimSpace(line))
	}
	ask := &pack.Ask{}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "of":
			for _, name := range arg.Vals {
				ask.Members = append(ask.Members, store.Pod(facts.UID(name)))
			}
			ask.Need = len(ask.Members)
		}
	}
	d.MaybeScanArgs(t, "need", &ask.Need)
	if u := ask.Members[0].Unit; u != nil && u.Facts != nil {
		ask.Topology, ask.Subgroups = u.Facts.Topology, u.Facts.SubgroupTopology
		for _, pod := range u.Pods() {
			if pod.Placed() {
				ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: store.Slot(pod.Node()), Subgroup: pod.Subgroup})
			}
		}
	}
	r := newReclaimer(t, store)
	r.placer.snapshot.Advance(store)
	switch d.Cmd {
	case "evict":
		return evicted(t, r, ask)
	case "ifgone":
		name, ok := r.BlockingUnit(ask, 3)
		checkUntouched(t, r)
		return fmt.Sprintln(name, ok)
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

// fataler is what rapid's tests and others have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// reclaimWorld is a Reclaimer with what it works on.
type reclaimWorld struct {
	*victims.Reclaimer
	placer *Placer
	store  *cluster.Store
}

func newReclaimer(tb fataler, store *cluster.Store) *reclaimWorld {
	tb.Helper()
	profile, err := rules.NewProfile(nil)
	if err != nil {
		tb.Fatal(err)
	}
	placer := NewPlacer(cluster.NewSnapshot(), profile, 7, 4)
	return &reclaimWorld{NewReclaimer(placer, store), placer, store}
}

func applyLine(t *testing.T, d *datadriven.TestData, store *cluster.Store, line string) {
	command, args, err := datadriven.ParseLine(line)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	said := &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}
	switch command {
	case "node":
		store.Apply(facts.NodeUpserted{Node: script.Node(t, said)})
	case "queue":
		store.Apply(facts.QueueUpserted{Queue: script.Queue(t, said)})
	case "namespace":
		store.Apply(facts.NamespaceUpserted{Namespace: script.Namespace(t, said)})
	case "unit":
		store.Apply(facts.UnitUpserted{Unit: script.Unit(t, said)})
	case "pod":
		var app string
		said.CmdArgs = slices.DeleteFunc(args, func(arg datadriven.CmdArg) bool {
			if arg.Key == "app" {
				app = arg.Vals[0]
			}
			return arg.Key == "app"
		})
		pod := script.Pod(t, said)
		if app != "" {
			pod.Labels = []facts.Label{{Key: "app", Value: app}}
		}
		store.Apply(facts.PodUpserted{Pod: pod})
	case "budget": // budget APP allowed
		b := &facts.Budget{Namespace: "default", Name: args[0].Key, Pods: facts.LabelSelector{Expressions: []facts.Requirement{
			{Key: "app", Operator: facts.In, Values: []string{args[0].Key}},
		}}}
		_, _ = fmt.Sscan(args[1].Key, &b.Allowed)
		store.Apply(facts.BudgetUpserted{Budget: b})
	case "reserve":
		store.Reserve([]cluster.Slot{store.Slot(args[0].Key)}, 1)
	case "pods": // pods PREFIX COUNT, else as pod
		var count int
		_, _ = fmt.Sscan(args[1].Key, &count)
		for i := range count {
			said.CmdArgs = append([]datadriven.CmdArg{{Key: fmt.Sprint(args[0].Key, "-", i)}}, args[2:]...)
			store.Apply(facts.PodUpserted{Pod: script.Pod(t, said)})
		}
	case "assume", "reclaim": // assume POD NODE VICTIM...; reclaim: whatever the victims' priority
		plan := &cluster.Plan{Reclaims: command == "reclaim", Placements: []cluster.Placement{{Pod: facts.UID(args[0].Key), Node: args[1].Key}}}
		for _, arg := range args[2:] {
			plan.Victims = append(plan.Victims, facts.UID(arg.Key))
		}
		if verdict := store.Commit(plan, rules.Commits); !verdict.Committed {
			d.Fatalf(t, "%s: %v", line, verdict)
		}
	default:
		d.Fatalf(t, "unknown line %q", line)
	}
}

// now is when decisions are taken in transcripts, in nanoseconds.
const now = 1000e9

func evicted(t *testing.T, r *reclaimWorld, ask *pack.Ask) string {
	hopeless := r.NoVictims(ask)
	found, ok := r.Evict(ask, now)
	checkUntouched(t, r)
	if !ok {
		if hopeless {
			return "none (no pod may be evicted)\n"
		}
		return "none\n"
	}
	if hopeless {
		t.Errorf("%s: said to be hopeless", ask.Members[0].Name)
	}
	if len(found.Placements) != ask.Need {
		t.Errorf("%d placements, want %d", len(found.Placements), ask.Need)
	}
	var b strings.Builder
	byPlace := make(map[string][]string)
	for _, victim := range found.Victims {
		byPlace[victim.Node()] = append(byPlace[victim.Node()], victim.Name)
	}
	for _, node := range sortedKeysOf(byPlace) {
		fmt.Fprintf(&b, "%s: %s\n", node, strings.Join(byPlace[node], " "))
	}
	placed := make(map[string][]string)
	for _, p := range found.Placements {
		name := r.store.Node(p.Slot).Name
		placed[name] = append(placed[name], p.Pod.Name)
	}
	for _, node := range sortedKeysOf(placed) {
		fmt.Fprintf(&b, "-> %s: %s\n", node, strings.Join(placed[node], " "))
	}
	c := found.Cost
	fmt.Fprintf(&b, "violations=%d highest=%d gangs=%d lost=%d pods=%d reclaims=%v\n", c.Violations, c.Highest, c.Gangs, c.Lost, c.Pods, found.Reclaims)
	if verdict := r.store.Commit(planOf(r.store, &found), rules.Commits); !verdict.Committed {
		fmt.Fprintln(&b, verdict)
	}
	return b.String()
}

func sortedKeysOf(m map[string][]string) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func planOf(store *cluster.Store, found *victims.Eviction) *cluster.Plan {
	plan := &cluster.Plan{Reclaims: found.Reclaims}
	for _, p := range found.Placements {
		plan.Placements = append(plan.Placements, cluster.Placement{Pod: p.Pod.UID, Node: store.Node(p.Slot).Name, Grant: p.Grant})
	}
	for _, victim := range found.Victims {
		plan.Victims = append(plan.Victims, victim.UID)
	}
	return plan
}

// checkUntouched holds the snapshot against the ledger.
func checkUntouched(t interface{ Fatalf(string, ...any) }, r *reclaimWorld) {
	if err := differs(&r.placer.snapshot.State, &r.store.State); err != nil {
		t.Fatalf("the snapshot is not as it was: %v", err)
	}
	if err := r.placer.snapshot.Verify(); err != nil {
		t.Fatalf("the snapshot's books: %v", err)
	}
}

func differs(a, b *cluster.State) error {
	for i := range b.Slots() {
		slot := cluster.Slot(i)
		if *a.GPUs(slot) != *b.GPUs(slot) || len(a.Ports(slot)) != len(b.Ports(slot)) || a.Reservation(slot) != b.Reservation(slot) {
			return fmt.Errorf("slot %d: GPUs, ports or reservation differ", slot)
		}
		for kind := range resource.Kind(b.Kinds()) {
			if a.Requested(slot, kind) != b.Requested(slot, kind) {
				return fmt.Errorf("slot %d: %d of %s requested, the ledger says %d", slot, a.Requested(slot, kind), b.KindName(kind), b.Requested(slot, kind))
			}
		}
	}
	return nil
}
