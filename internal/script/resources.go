package script

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// What plugins bring by NUMA node. A report says what there is, and who holds what; a pod asks for a resource by its name, and its record says what its Binding promised:
//
//	report n1 agent cpus=(8,8) mem=(8,8) brings=(example.com/fpga@0:1+1:2) uses=(p1@example.com/fpga@1:1)
//	pod p1 node=n1 example.com/fpga=1 recorded=(example.com/fpga@1:1)

// resourceArg reads what a report says of it.
func resourceArg(t testing.TB, d *datadriven.TestData, r *facts.NodeReport, arg datadriven.CmdArg) bool {
	t.Helper()
	switch arg.Key {
	case "brings":
		for _, value := range arg.Vals {
			for name, a := range resourceGrant(t, d, value).All() {
				r.Resources = append(r.Resources, resource.Quantity{Name: name, Amount: a.Sum()})
				r.ByNUMANode = append(r.ByNUMANode, topology.Resource{Name: name, Amounts: a})
			}
		}
	case "uses":
		for _, value := range arg.Vals {
			uid, held, _ := strings.Cut(value, "@")
			r.HeldResources = append(r.HeldResources, facts.HeldResources{UID: facts.UID(uid), Grant: resourceGrant(t, d, held)})
		}
	default:
		return false
	}
	return true
}

func resourceGrant(t testing.TB, d *datadriven.TestData, text string) topology.ResourceGrant {
	t.Helper()
	name, amounts, _ := strings.Cut(text, "@")
	g, err := topology.ParseResourceGrant(name + "=" + strings.ReplaceAll(amounts, "+", ","))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return g
}

// askResources has a pod ask by NUMA node for what it requests of resources with a domain.
func askResources(r *facts.Requirements) {
	r.GPU.Resources = topology.MakeResourceRequest(func(yield func(string, int64) bool) {
		for _, q := range r.Requests {
			if strings.Contains(q.Name, "/") && !strings.HasPrefix(q.Name, "hilbert.dev/") && !yield(q.Name, q.Amount) {
				return
			}
		}
	})
}

// resourcesLeft renders what is left of what plugins bring, by NUMA node.
func resourcesLeft(s *cluster.State, slot cluster.Slot) string {
	v := s.View(slot)
	if v.ResourcesFree == nil {
		return ""
	}
	var b strings.Builder
	for i := range v.Resources {
		fmt.Fprintf(&b, " %s free=", v.Resources[i].Name)
		for z := range v.NUMANodes.NUMANodes {
			fmt.Fprintf(&b, "[%d]", v.ResourcesFree[i].NUMA[z])
		}
		if far := v.ResourcesFree[i].Far; far != 0 || v.Resources[i].Amounts.Far != 0 {
			fmt.Fprintf(&b, "+%d", far)
		}
	}
	return b.String()
}
