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

// Where a kubelet chooses the GPUs, the numbers that the scheduler counts with are told to nobody: those that were read back are, with what was not promised.
func TestExplainGPUsOfAKubelet(t *testing.T) {
	now := time.Unix(100, 0)
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	amounts := []resource.Quantity{{Name: "cpu", Amount: 8000}, {Name: "memory", Amount: 1 << 40}, {Name: "pods", Amount: 10}}
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Allocatable: amounts, GPU: topology.Shape{GPUs: 2}}}, now)
	pod := facts.Pod{UID: "u", Namespace: "ml", Name: "train", Ours: true, Node: "n1", Grant: topology.Grant{GPUs: 1, Milli: topology.FullGPU}}
	pod.Requirements = &facts.Requirements{GPU: topology.Request{Whole: 1}}
	s.Apply(facts.PodUpserted{Pod: pod}, now)
	said := func() string {
		t.Helper()
		a, err := inspect.Take(s, "hilbert", now).Explain("ml", "train")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := render.Pod(&b, a); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	report := func(owner topology.Owner, held ...facts.HeldDevices) {
		s.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{Devices: &topology.Devices{Owner: owner, GPU: make([]topology.GPU, 2)}, HeldDevices: held}}, now)
	}
	for _, c := range []struct {
		what   string
		report func()
		want   string
		not    string
	}{
		{"nobody reports", func() {}, "GPUs 0", "kubelet"},
		{"not read back", func() { report(topology.OwnerKubelet) }, "no part, PCIe switch or NUMA node is promised; which it has was not read back yet", "GPUs 0"},
		{
			"read back", func() {
				report(topology.OwnerKubelet, facts.HeldDevices{UID: "u", Grant: topology.Grant{GPUs: 2, Milli: topology.FullGPU}})
			}, "GPUs 1, which the kubelet chose, by number: no part, PCIe switch or NUMA node was promised", "GPUs 0",
		},
		{"the agent's", func() {
			report(topology.OwnerHilbert, facts.HeldDevices{UID: "u", Grant: topology.Grant{GPUs: 2, Milli: topology.FullGPU}})
		}, "GPUs 1", "kubelet"},
	} {
		c.report()
		if got := said(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}
