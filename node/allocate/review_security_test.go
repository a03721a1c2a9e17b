package allocate

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology/topologytest"
)

func TestSecPoolTheft(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	m, err := New(topologytest.Machine(2, 8, 1, 1, 4096), Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
	if err != nil {
		t.Fatal(err)
	}
	q, err := spec.QoSOf(nil, nil)
	v := m.Admit(Pod{UID: "victim", Namespace: "prod", Name: "web", QoS: q, MilliCPU: 12000})
	show := func(uid string) {
		p, _ := m.Placement(uid)
		t.Logf("%s runs on %v (%d CPUs)", uid, p.CPUs, p.CPUs.Len())
	}
	_ = v
	show("victim")
	for i := range 13 {
		q, err := spec.QoSOf(nil, map[string]string{"hilbert.dev/pool": fmt.Sprintf("z%02d", i)})
		if err != nil {
			t.Fatal(err)
		}
		m.Admit(Pod{UID: fmt.Sprintf("evil%d", i), Namespace: "evil", Name: fmt.Sprint(i), QoS: q, MilliCPU: 0, BestEffort: true})
	}
	t.Logf("after 13 BestEffort pods of another namespace, each with a pool of its own:")
	show("victim")
	show("evil0")
	show("evil12")
}
