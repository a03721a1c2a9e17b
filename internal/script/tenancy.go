package script

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Unit reads a unit command, a PodGroup: unit g min=3 at=2 timeout=60 prio=5 never whole required=zone preferred=.. spread=.. uniform=..
// subrequired=.. subpreferred=.. scheduled invalid=why uid=u2 ns=default.
func Unit(t testing.TB, d *datadriven.TestData) *facts.Unit {
	t.Helper()
	name := d.CmdArgs[0].Key
	f := &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: name}, UID: facts.UID("group-" + name), MinMember: 1}
	for _, arg := range d.CmdArgs[1:] {
		value := first(arg.Vals)
		texts := map[string]*string{
			"required": &f.Topology.Required, "preferred": &f.Topology.Preferred, "spread": &f.Topology.Spread, "uniform": &f.Topology.Uniform,
			"subrequired": &f.SubgroupTopology.Required, "subpreferred": &f.SubgroupTopology.Preferred, "invalid": &f.Invalid, "ns": &f.Namespace,
		}
		switch to := texts[arg.Key]; {
		case to != nil:
			*to = value
		case arg.Key == "uid":
			f.UID = facts.UID(value)
		case arg.Key == "min":
			f.MinMember = int32(scaled(t, d, value, 1))
		case arg.Key == "at":
			f.Created = scaled(t, d, value, 1e9)
		case arg.Key == "timeout":
			f.Timeout = scaled(t, d, value, 1e9)
		case arg.Key == "prio":
			f.Priority, f.Prioritized = int32(scaled(t, d, value, 1)), true
		case arg.Key == "never":
			f.NeverPreempts = true
		case arg.Key == "whole":
			f.Indivisible = true
		case arg.Key == "single":
			f.Divisible = true
		case arg.Key == "scheduled":
			f.Scheduled = true
		case arg.Key == "uid":
			f.UID = facts.UID(value)
		default:
			d.Fatalf(t, "unit: unknown argument %q", arg.Key)
		}
	}
	return f
}

var sortPolicies = map[string]facts.SortPolicy{
	"priority-fifo": facts.PriorityFIFO, "fifo": facts.FIFO, "fair": facts.Fair, "fair-history": facts.FairHistory, "smallest": facts.SmallestFirst,
}

// Queue reads a queue command: queue q parent=p weight=2 sort=fair halflife=60 borrows-nothing keeps-borrowed never selects=team:a
// guaranteed=(cpu:4,gpu:2000) max=(mem:8). cpu is in cores, mem in GiB, gpu in thousandths.
func Queue(t testing.TB, d *datadriven.TestData) *facts.Queue {
	t.Helper()
	f := &facts.Queue{Name: d.CmdArgs[0].Key, Weight: 1}
	for _, arg := range d.CmdArgs[1:] {
		value := first(arg.Vals)
		switch arg.Key {
		case "parent":
			f.Parent = value
		case "weight":
			f.Weight = scaled(t, d, value, 1)
		case "sort":
			policy, ok := sortPolicies[value]
			if !ok {
				d.Fatalf(t, "queue: unknown sort policy %q", value)
			}
			f.Sort = policy
		case "halflife":
			f.HalfLife = scaled(t, d, value, 1e9)
		case "borrows-nothing":
			f.BorrowsNothing = true
		case "keeps-borrowed":
			f.KeepsBorrowed = true
		case "min-runtime":
			f.ReclaimMinRuntime = new(scaled(t, d, value, 1e9))
		case "never":
			f.NeverPreempts = true
		case "selects":
			key, label, _ := strings.Cut(value, ":")
			f.Namespaces = &facts.LabelSelector{Expressions: []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{label}}}}
		case "guaranteed":
			f.Guaranteed = quantities(t, d, arg.Vals)
		case "max":
			f.Max = quantities(t, d, arg.Vals)
		default:
			d.Fatalf(t, "queue: unknown argument %q", arg.Key)
		}
	}
	return f
}

func quantities(t testing.TB, d *datadriven.TestData, values []string) (list []resource.Quantity) {
	t.Helper()
	for _, value := range values {
		name, amount, _ := strings.Cut(value, ":")
		switch name {
		case "cpu":
			list = append(list, resource.Quantity{Name: resource.NameCPU, Amount: scaled(t, d, amount, 1000)})
		case "mem":
			list = append(list, resource.Quantity{Name: resource.NameMemory, Amount: scaled(t, d, amount, 1<<30)})
		case "gpu":
			list = append(list, resource.Quantity{Name: spec.ResourceGPUMilli, Amount: scaled(t, d, amount, 1)})
		default:
			list = append(list, resource.Quantity{Name: name, Amount: scaled(t, d, amount, 1)})
		}
	}
	return list
}

// Namespace reads a namespace command: namespace team-a queue=ads team=a.
func Namespace(t testing.TB, d *datadriven.TestData) facts.Namespace {
	t.Helper()
	n := facts.Namespace{Name: d.CmdArgs[0].Key}
	for _, arg := range d.CmdArgs[1:] {
		key := arg.Key
		if key == "queue" {
			key = spec.LabelQueue
		}
		n.Labels = append(n.Labels, facts.Label{Key: key, Value: first(arg.Vals)})
	}
	sortLabels(n.Labels)
	return n
}
