package place

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestUnit replays testdata/unit: nodes, pods and one unit as in every transcript; "nodes" and "members" stand for count= of them. place
// prints, for each domain of the rack label, which members go to which nodes, or why the unit waits.
func TestUnit(t *testing.T) {
	datadriven.RunTest(t, "testdata/unit", func(t *testing.T, d *datadriven.TestData) string {
		store := cluster.NewStore()
		unit := (*facts.Unit)(nil)
		for line := range strings.Lines(d.Input) {
			command, args, err := datadriven.ParseLine(strings.TrimSpace(line))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			each(&datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}, func(said *datadriven.TestData) {
				switch command {
				case "node", "nodes":
					node := script.Node(t, said)
					node.Labels[facts.HostnameKey] = node.Name
					store.Apply(facts.NodeUpserted{Node: node})
				case "pod", "members":
					store.Apply(facts.PodUpserted{Pod: script.Pod(t, said)})
				case "unit":
					unit = script.Unit(t, said)
					store.Apply(facts.UnitUpserted{Unit: unit})
				default:
					d.Fatalf(t, "%q: want node, nodes, pod, members or unit", command)
				}
			})
		}
		return placeScript(t, store, store.Units().Get(unit.UnitName))
	})
}

// each calls f for each thing that a command with count= stands for, its number behind its name.
func each(said *datadriven.TestData, f func(*datadriven.TestData)) {
	at := slices.IndexFunc(said.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "count" })
	if at < 0 {
		f(said)
		return
	}
	count, _ := strconv.Atoi(said.CmdArgs[at].Vals[0])
	for i := range count {
		one := *said
		one.CmdArgs = slices.Delete(slices.Clone(said.CmdArgs), at, at+1)
		one.CmdArgs[0].Key += strconv.Itoa(i)
		f(&one)
	}
}

func placeScript(t *testing.T, store *cluster.Store, u *cluster.Unit) string {
	ask := pack.Ask{Need: u.Need(), Topology: u.Facts.Topology, Subgroups: u.Facts.SubgroupTopology}
	for _, pod := range u.Pods() {
		if pod.Node() == "" {
			ask.Members = append(ask.Members, pod)
		} else {
			ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: store.Slot(pod.Node()), Subgroup: pod.Subgroup})
		}
	}
	slices.SortStableFunc(ask.Members, func(a, b *cluster.Pod) int { return cmp.Compare(a.Subgroup, b.Subgroup) })
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlacer(snapshot, profile, 0, 8)
	p.SetLevels([]string{"block", "rack", facts.HostnameKey})
	placed, ok := p.PlaceUnit(&ask)
	if !ok {
		return p.ExplainUnit(&ask).String() + "\n"
	}
	var lines []string
	for _, m := range placed {
		node := snapshot.Node(m.Slot)
		lines = append(lines, fmt.Sprintf("rack %s: %s on %s", cmp.Or(node.Labels["rack"], "none"), m.Pod.Name, node.Name))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
