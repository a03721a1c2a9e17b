// Package topologytest makes machines for tests of what divides them. Machine(2, 4, 2, 2, 1024) has two NUMA nodes in one socket, each with four cores of
// two CPUs, an L3 cache for every two cores, and 1 GiB of memory. It is test support: node/machine reads the machines that exist, and what is odd about
// them, such as numbers with gaps, a test adds itself.
package topologytest

import "hilbert.dev/hilbert/topology"

// Machine returns equal NUMA nodes of equal cores. The CPUs of a core are numbered side by side, and two NUMA nodes make a socket.
func Machine(numaNodes, cores, threads, coresPerL3 int, memoryMiB int64) *topology.Machine {
	m := &topology.Machine{}
	for z := range numaNodes {
		node := topology.NUMANode{ID: z, Memory: memoryMiB * topology.Mebibyte}
		for i := range cores {
			for range threads {
				c := topology.CPU{ID: len(m.CPUs), Core: z*cores + i, L3: (z*cores + i) / coresPerL3, Socket: z / 2, NUMA: z}
				m.CPUs = append(m.CPUs, c)
				node.CPUs.Add(c.ID)
			}
		}
		m.NUMA = append(m.NUMA, node)
	}
	return m
}
