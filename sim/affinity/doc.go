// Package affinity is an experiment: instances that want a GPU and its network card under one PCIe switch, and what it costs to give them that.
//
// It replays a workload (package trace's DLRM) on machines whose devices are a model, since the trace names none: a GPU machine has 8 GPUs and
// 4 cards of 100 Gbit/s on 4 switches, two GPUs and one card each; a CPU machine 4 cards; both have two sockets, each one NUMA node with two of the switches, half of
// the cores and half of the memory. RDMA shares are percents of a card. Every instance has whole cores for itself and memory beside them (Bound).
//
//	tasks ─▶ run: the fullest machine that has room ─▶ topology.Offer │ a blind choice ─▶ judge: what hangs where
//
// Five runs differ in nothing else: blind, devices drawn as the kubelet's device manager hands them out without a topology manager; first, blind
// with the lowest indices; required, a GPU and its card under one switch or not at all; preferred; and sought, preferred on any machine before it is
// given up on one. Cards without a GPU prefer the NUMA node of the CPUs in all but the blind ones.
//
// Invariants: what waits is tried again wherever something left, in order of arrival; the judge shares no code with the allocator; whoever is
// refused is looked for by brute force; a run is a function of its workload and its seed but for its speed.
//
// It is not the scheduler: machines are chosen by one fixed rule, so that devices are all that differs.
package affinity
