package inspect_test

import (
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// TestCaution: who explains a pod with a part of a GPU is told whether that protects it from others; with a whole GPU or a MIG instance there is nothing to say.
func TestCaution(t *testing.T) {
	const boundary = "is no security boundary"
	for _, c := range []struct {
		what    string
		asks    topology.Request
		grant   topology.Grant // zero: it waits
		several bool
		want    string // empty: no caution
	}{
		{"a soft slice", topology.Request{Milli: 250, Isolation: topology.Soft}, topology.Grant{GPUs: 1, Milli: 250, Memory: 1024, Isolation: topology.Soft}, false, "Its slice of a GPU is soft (MPS), which " + boundary},
		{"several namespaces", topology.Request{Milli: 250, Isolation: topology.Soft}, topology.Grant{GPUs: 1, Milli: 250, Memory: 1024, Isolation: topology.Soft}, true, "several namespaces (node.devices.severalNamespaces), and it " + boundary},
		{"a counted part", topology.Request{Milli: 250}, topology.Grant{GPUs: 1, Milli: 250, Isolation: topology.Accounting}, false, "counted and not enforced, and " + boundary},
		{"an instance", topology.Request{Milli: 250, Isolation: topology.Hard}, topology.Grant{GPUs: 1, Milli: 250, Memory: 1024, Isolation: topology.Hard, Instance: 1}, false, ""},
		{"a whole GPU", topology.Request{Whole: 1}, topology.Grant{GPUs: 1, Milli: topology.FullGPU}, false, ""},
		{"no GPU", topology.Request{}, topology.Grant{}, false, ""},
		{"it waits for a soft slice", topology.Request{Milli: 250, Isolation: topology.Soft}, topology.Grant{}, false, "A part of a GPU that is not hard (hilbert.dev/gpu-isolation: hard) " + boundary},
		{"it waits for a part", topology.Request{Milli: 250}, topology.Grant{}, false, boundary},
		{"it waits for an instance", topology.Request{Milli: 250, Isolation: topology.Hard}, topology.Grant{}, false, ""},
		{"it waits for a whole GPU", topology.Request{Whole: 1}, topology.Grant{}, false, ""},
	} {
		now := time.Unix(100, 0)
		s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
		if err != nil {
			t.Fatal(err)
		}
		amounts := []resource.Quantity{{Name: "cpu", Amount: 8000}, {Name: "memory", Amount: 1 << 40}, {Name: "pods", Amount: 10}}
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Allocatable: amounts, GPU: topology.Shape{GPUs: 1}}}, now)
		s.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{Devices: &topology.Devices{Owner: topology.OwnerHilbert, GPU: make([]topology.GPU, 1), SeveralNamespaces: c.several}}}, now)
		pod := facts.Pod{UID: "u", Namespace: "ml", Name: "serve", Ours: true, Grant: c.grant, Requirements: &facts.Requirements{GPU: c.asks}}
		if c.grant.GPUs != 0 {
			pod.Node = "n1"
		}
		s.Apply(facts.PodUpserted{Pod: pod}, now)
		a, err := inspect.Take(s, "hilbert", now).Explain("ml", "serve")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := render.Pod(&b, a); err != nil {
			t.Fatal(err)
		}
		if said := b.String(); !strings.Contains(said, c.want) || strings.Contains(said, boundary) != (c.want != "") || strings.Contains(a.Caution, boundary) != (c.want != "") {
			t.Errorf("%s: want %q in\n%s", c.what, c.want, said)
		}
	}
}
