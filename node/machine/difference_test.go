package machine

import (
	"testing"

	"hilbert.dev/hilbert/topology"
)

func TestDifference(t *testing.T) {
	two := func(change func(*topology.Machine)) *topology.Machine {
		m := &topology.Machine{NUMA: []topology.NUMANode{{ID: 0, Memory: 16 << 30}, {ID: 1, Memory: 16 << 30}}}
		for id := range 8 {
			m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id / 2 * 2, NUMA: id / 4})
		}
		change(m)
		return m
	}
	was := two(func(*topology.Machine) {})
	for want, change := range map[string]func(*topology.Machine){
		"": func(m *topology.Machine) { m.NUMA[0].Memory -= 100 << 20 },
		"CPUs 2,5 are offline": func(m *topology.Machine) {
			m.CPUs = []topology.CPU{m.CPUs[0], m.CPUs[1], {ID: 3, Core: 3}, m.CPUs[4], m.CPUs[6], m.CPUs[7]}
		},
		"CPUs 8 are online": func(m *topology.Machine) { m.CPUs = append(m.CPUs, topology.CPU{ID: 8, Core: 8}) },
		"CPUs have other cores or NUMA nodes than before":    func(m *topology.Machine) { m.CPUs[7].NUMA = 0 },
		"NUMA node 1 has 8192 MiB of memory, and had 16384":  func(m *topology.Machine) { m.NUMA[1].Memory /= 2 },
		"NUMA node 0 has 18432 MiB of memory, and had 16384": func(m *topology.Machine) { m.NUMA[0].Memory += 2 << 30 },
		"NUMA node 1 is gone; NUMA node 2 is new":            func(m *topology.Machine) { m.NUMA[1].ID = 2 },
	} {
		if got := Difference(was, two(change)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
