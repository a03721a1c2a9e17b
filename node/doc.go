// Package node is the agent of one node. It keeps the promises that the scheduler made of the node: which CPUs, memory, GPUs and network cards a pod
// has, and how much idle capacity reclaimed pods may use.
//
// # The loop
//
// One goroutine, the loop, owns all state. Three kinds of messages reach it, one at a time:
//
//   - Events of the container runtime (a sandbox starts, a container is created, …) go to admission, which has allocate decide.
//   - At each tick the controllers of Agent.onTick compare the node with what was decided, and try again what failed.
//   - After each reading of the kernel's counters, once a second, the controllers of Agent.onObservation run the control laws.
//
// A controller is responsible for one concern and owns the state of it: lending, eviction, memory, devices, knobs and so on. Its Tick gets inputs, and
// returns whether placements or knobs have changed. If so, Agent.apply carries that out: in the kernel, and in the runtime; the disk gets it beside the loop.
// What may take long runs beside the loop (node/loop), and posts its result back.
//
// # The rooms
//
// This package has the Agent, what reaches it from the runtime, admission, and the controllers that run control laws on the observation. What has a purpose of its own is in a room:
//
//	node/loop        how messages reach the loop        node/runtime     what the container runtime and the agent tell each other
//	node/controller  what all controllers share         node/pods        the pods of the node, and what each asks for
//	node/store       what is kept on disk               node/devices     GPUs and network cards: whose, which, and what containers get
//	node/events      what people are told               node/plugins     resources of plugins
//	node/kubelet     what is asked of the kubelet       node/quiet       interrupts and services off CPUs that pods hold
//
// A controller in a room is given the controller.Node and the ports that it needs, and knows no other controller; Agent.addControllers puts them together. The laws themselves are pure packages of their
// own (node/advise, node/evict, node/interference, ...). Controllers of laws are here because they share the observation.
//
// # An example
//
// A node of eight cores lends two of them to a batch pod. A dedicated pod with a promise of two CPUs in NUMA node 1 starts:
//
//  1. RunSandbox: admission reads the promise from the Binding's annotations; allocate gives the pod CPUs 4 and 5, and shrinks the pools.
//  2. apply: the checkpoint is handed to its writer; the fast knob writer moves the other pods off CPUs 4 and 5.
//  3. CreateContainer: the runtime is answered "cpuset 4-5", once step 2 is done in the kernel. The container starts alone on its CPUs.
//  4. observed: the shared pods now wait for CPUs. lendingController takes both lent cores back in the same round, and the report, which is urgent now,
//     tells the scheduler within a second that there is less headroom.
//  5. If memory is short too, evictionController names the batch pod in the report. hilbertd's leader evicts it; if that does not happen in time and memory is
//     past its hard threshold, the agent stops the pod itself.
//
// # What always holds
//
// No answer waits for a disk: a runtime that gets none goes on without the agent. What was answered and was not on disk when the agent died is recovered from
// what the runtime tells: each container's CPUs, requests and Mark. A new container's CPUs are its own before its first instruction, because the pods
// that had them are moved off before the runtime is answered. The loop never calls the runtime, since the runtime may be waiting for the loop. Missing
// data is not zero: a law without its input does nothing new. Time is monotonic.
//
// The package holds no policy, which is allocate's, and neither client nor wire format: it declares Ports, and cmd puts kube and node/nri there.
package node
