// Package hint merges what all resources of a node prefer into one set of NUMA nodes for a pod.
//
// # How it works
//
// Each resource that a pod asks for has hints: sets of NUMA nodes that can serve it, of which some are preferred. Merge chooses one hint of each resource. The
// sets are not cut with each other, as the kubelet's topology manager does: a resource with a hint of NUMA node 0 and one with a hint of NUMA node 1 are served by
// the two nodes together, and it is said that this costs locality. What is chosen is, the earlier first:
//
//  1. the most resources that get a preferred hint;
//  2. the fewest NUMA nodes together;
//  3. the narrowest hints, by the sum of their NUMA nodes;
//  4. the lowest NUMA nodes.
//
// For example, the CPUs promised to a pod are on NUMA node 0 and could be on 1, and the pod's FPGA is on NUMA node 1 alone:
//
//	cpu:  {0 preferred}, {1}
//	fpga: {1 preferred}
//
// Both preferred would be {0} and {1}: two of two, on two NUMA nodes. That is taken, for it is what both prefer. A pod that must have one NUMA node (the
// policies single-numa-node and restricted) is given {1}.
//
// Invariants: Merge is a pure function; the order of resources does not matter for the set, nor does that of hints; a resource without hints does not care. What a
// resource says outside the machine is not looked at: its caller has dropped it. It decides nothing about amounts.
package hint
