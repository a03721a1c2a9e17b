package allocate

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology/topologytest"
)

func shareOf(m *Manager, pool string) int {
	for _, p := range m.Pools.List() {
		if p.Name == pool {
			return p.CPUs.Len()
		}
	}
	return -1
}

// 48-core node, share pods ask for 40 CPUs. A tenant creates N pods of 10m, each in a pool of its own.
func TestRevPools(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	m, err := New(topologytest.Machine(2, 24, 2, 6, 1<<16), Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		m.Admit(Pod{UID: fmt.Sprint("s", i), Namespace: "a", Name: fmt.Sprint(i), MilliCPU: 8000})
	}
	t.Log("share", shareOf(m, "share"), "of 96 CPUs; requests 80")
	for i := range 40 {
		m.Admit(Pod{UID: fmt.Sprint("x", i), Namespace: "evil", Name: fmt.Sprint(i), MilliCPU: 10, QoS: spec.QoS{Level: spec.QoSShared, Pool: fmt.Sprint("p", i)}})
		if i%8 == 7 {
			t.Log(i+1, "tiny pools: share", shareOf(m, "share"))
		}
	}
}

// A ServiceProfile's demand takes from share below share's requests.
func TestRevDemand(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	m, err := New(topologytest.Machine(2, 24, 2, 6, 1<<16), Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		m.Admit(Pod{UID: fmt.Sprint("s", i), Namespace: "a", Name: fmt.Sprint(i), MilliCPU: 8000})
	}
	m.Admit(Pod{UID: "x", Namespace: "evil", Name: "x", MilliCPU: 10, QoS: spec.QoS{Level: spec.QoSShared, Pool: "mine"}})
	t.Log("before: share", shareOf(m, "share"), "mine", shareOf(m, "mine"))
	m.Pools.SetDemands(map[string]int64{"mine": 94000})
	t.Log("after: share", shareOf(m, "share"), "mine", shareOf(m, "mine"))
}
