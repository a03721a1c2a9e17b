// Package judge decides naively whether a placement is allowed, so that the simulator can check the scheduler against it.
//
// It shares no code with the scheduler's filters, quota or ledger, only the vocabulary of their input (cluster/facts, topology, resource). It
// keeps no index and no running totals: for every question it goes over all pods, all nodes or all queues again. That is slow, but a mistake
// in an index of the scheduler cannot repeat itself here.
//
// Questions are answered by the reason why not; an empty string means yes:
//
//	judge.Refusal(node, others, pod, grant)       // "cpu: 4000 asked, 3000 free", "taint dedicated", "host port TCP/80", or ""
//	judge.DeviceRefusal(devices, &request, &grant, held) // GPUs and network cards of a node's agent
//	judge.NUMARefusal(&shape, request, grant, held)      // cores and memory of NUMA nodes
//	population.Refusal(pod, node)                 // spread, affinity and anti-affinity between pods
//	tenants.Refusal(used, asks)                   // "team-a has not enough cpu"
//
// A node with 4 CPUs holds a pod of 1 CPU. Refusal of a pod of 4 CPUs adds up the allocatable amount (4000), takes off what the pods there ask
// for (1000), and answers "cpu: 4000 asked, 3000 free".
//
// Fits and SomeGrant look for a place. They find some, not all: where Fits says yes there is a place for certain.
package judge
