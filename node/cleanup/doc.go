// Package cleanup gives the kernel's files the values back that they have on a node without an agent.
//
// The agent's limits and weights outlive it: a pod that was lent memory keeps its memory.high when lending is switched off, and nobody raises it any more. So the
// agent records which Parts it sets, before it sets them (Record). At its start it resets the parts that it set before and no longer sets;
// hilbertd --cleanup resets all of them.
//
// # How it works
//
// Read reads the files of all cgroups of pods. Plan, which is pure, says what has to be written: only files that the agent ever writes, and only where the kernel has
// something else than a node without an agent. Reset carries that out, and goes on where a cgroup has gone.
//
//	kubepods/besteffort/pod1        memory.high = 104857600    → max
//	kubepods/besteffort/pod1/main   cpuset.cpus = 0-1          → 0-7, what the pods may use together: the kernel lets nobody empty the set of a running container
//
// # What always holds
//
// A second Reset writes nothing. No file is written that no part names, and none above the cgroup of all pods but io.cost.qos. Nothing gets less than it has: CPUs, memory nodes
// and limits grow only, and protection of memory, which others could use, ends. The exception is memory.swap.max of BestEffort containers, which is the kubelet's 0 again.
//
// # What it is not
//
// It does not know what a pod was promised, and is for nodes whose agent has gone for good or no longer does a part. What an agent lends while it
// runs, it takes back itself. Limits with which the runtime created a container stay until the container ends.
package cleanup
