package script

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Report reads a report command: what a node's agent says. The amounts of each NUMA node stand in lists, memory in GiB; what several NUMA nodes give is
// joined by a plus.
//
//	report n1 headroom=(8,16) wishes=(p1,p2!)
//	report n1 broken=(p3) refused=(p1)
//	report n1 shut=evicted
//	report n1 agent binds-shared separates-bandwidth threads=2 cpus=(16,16) mem=(64,64) sockets=(0,1) closed=1 held=(p1@0:8/4096Mi,p2@0:2+1:2)
func Report(t testing.TB, d *datadriven.TestData) facts.NodeReported {
	t.Helper()
	r := &facts.NodeReport{NUMANodes: topology.NUMAShape{Threads: 1}}
	shape := &r.NUMANodes
	for _, arg := range d.CmdArgs[1:] {
		switch arg.Key {
		case "agent":
			shape.Ruler = topology.RulerAgent
		case "kubelet":
			shape.Ruler = topology.RulerKubelet
		case facts.ReportStale:
			r.Why = arg.Key
		case "headroom": // cpus and GiB
			r.Headroom.State = facts.HeadroomOpen
			r.Headroom.MilliCPU, r.Headroom.Memory = scaled(t, d, arg.Vals[0], 1000), scaled(t, d, arg.Vals[1], 1<<30)
		case "shut":
			r.Headroom.State, r.Headroom.Note = facts.HeadroomClosed, first(arg.Vals)
		case "old":
			r.Headroom.State = facts.HeadroomStale
		case "wishes", "broken", "refused":
			evictionArg(r, arg)
		case "threads":
			arg.Scan(t, 0, &shape.Threads)
		case "cpus":
			shape.NUMANodes = uint8(len(arg.Vals))
			for z, value := range arg.Vals {
				shape.NUMANode[z].CPUs = uint16(scaled(t, d, value, 1))
			}
		case "mem":
			for z, value := range arg.Vals {
				shape.NUMANode[z].Memory = uint32(scaled(t, d, value, 1024))
			}
		case "sockets":
			for z, value := range arg.Vals {
				shape.NUMANode[z].Socket = uint8(scaled(t, d, value, 1))
			}
		case "binds-shared":
			shape.BindsShared = true
		case "separates-bandwidth":
			shape.SeparatesBandwidth = true
		case "closed":
			for _, value := range arg.Vals {
				shape.Closed |= 1 << scaled(t, d, value, 1)
			}
		case "held":
			for _, value := range arg.Vals {
				uid, numaNodes, _ := strings.Cut(value, "@")
				r.Held = append(r.Held, facts.HeldNUMA{UID: facts.UID(uid), Grant: numaGrant(t, d, numaNodes)})
			}
		default:
			if !resourceArg(t, d, r, arg) && !deviceArg(t, d, r, arg) {
				d.Fatalf(t, "report: unknown argument %q", arg.Key)
			}
		}
	}
	return facts.NodeReported{Node: d.CmdArgs[0].Key, Report: r}
}

// evictionArg reads which pods the node wants evicted: for pressure, urgent where a ! follows, or because their promise is broken; and whose eviction was refused.
func evictionArg(r *facts.NodeReport, arg datadriven.CmdArg) {
	for _, uid := range arg.Vals {
		name, urgent := strings.CutSuffix(uid, "!")
		e := facts.EvictionRequest{UID: facts.UID(name), Namespace: "default", Name: name, Reason: "Pressure", Urgent: urgent}
		switch arg.Key {
		case "refused":
			r.Refused = append(r.Refused, facts.UID(uid))
			continue
		case "broken":
			e.Reason, e.Urgent, e.Broken = spec.ReasonPromiseBroken, true, true
		}
		r.Evictions = append(r.Evictions, e)
	}
}

func numaGrant(t testing.TB, d *datadriven.TestData, text string) topology.NUMAGrant {
	t.Helper()
	g, err := topology.ParseNUMAGrant(strings.ReplaceAll(text, "+", ","))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return g
}

var bindings = map[string]topology.Binding{"": topology.Unbound, "bound": topology.Bound, "exclusive": topology.Exclusive}

// The pod's command says dedicated, dedicated=bound, dedicated=exclusive, or shared=bound; and bandwidth=intensive or bandwidth=sensitive.

// askNUMANodes makes a pod dedicated whose command says so: it asks for as many whole cores as its cpu.
func askNUMANodes(t testing.TB, d *datadriven.TestData, r *facts.Requirements, amounts map[string]int64) {
	t.Helper()
	for _, arg := range d.CmdArgs[1:] {
		binding, ok := bindings[first(arg.Vals)]
		switch {
		case arg.Key == "shared" && first(arg.Vals) == "bound":
			binding = topology.BoundShared
		case arg.Key != "dedicated" && arg.Key != "shared":
			continue
		case !ok || arg.Key == "shared":
			d.Fatalf(t, "pod: %s=%s: want dedicated=bound, dedicated=exclusive or shared=bound", arg.Key, arg.Vals)
		}
		r.NUMANodes = topology.NUMARequest{CPUs: uint16((amounts[resource.NameCPU] + 999) / 1000), Binding: binding}
		if binding != topology.Unbound {
			r.NUMANodes.Memory = uint32(amounts[resource.NameMemory] / topology.Mebibyte)
		}
	}
	for _, arg := range d.CmdArgs[1:] {
		if arg.Key != "bandwidth" {
			continue
		}
		var ok bool
		if r.NUMANodes.Bandwidth, ok = topology.ParseBandwidth(first(arg.Vals)); !ok {
			d.Fatalf(t, "pod: bandwidth=%s: want intensive or sensitive", arg.Vals)
		}
	}
}

// NUMA nodes renders what is left of a node's NUMA nodes: CPUs, and MiB of memory.
func numaNodes(s *cluster.State, slot cluster.Slot) string {
	shape, free := s.NUMANodes(slot)
	if s.Report(slot) == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, " numaNodes(%s) free=", shape.Ruler)
	for z := range shape.NUMANodes {
		fmt.Fprintf(&b, "[%d/%dMi", free[z].CPUs, free[z].Memory)
		if free[z].Intensive > 0 {
			fmt.Fprintf(&b, " intensive=%d", free[z].Intensive)
		}
		if free[z].Sensitive > 0 {
			fmt.Fprintf(&b, " sensitive=%d", free[z].Sensitive)
		}
		if shape.Closed&(1<<z) != 0 {
			b.WriteString(" closed")
		}
		b.WriteString("]")
	}
	return b.String()
}
