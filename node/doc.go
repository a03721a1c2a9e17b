// Package node is the agent of one node: a loop that keeps on the node what was promised of it. It hears of pods from the container
// runtime, lets allocate decide, sees that the kernel does as decided, and says what it knows.
//
// One goroutine, the loop, owns the allocate.Manager and all that is known of pods; calls of the runtime, ticks, and answers of the kernel,
// the runtime and the API server are messages to it, taken in order. What may take long runs beside it: two knob writers that write to the
// kernel (one for cpuset.mems, which moves memory), one worker that updates containers through the runtime, one that writes the report.
//
// Invariants: a decision that an answer depends on is on disk before the answer; a new container's CPUs are its own before its first
// instruction, because those who had them are moved off before the runtime is answered; no call into the runtime is made from the loop,
// since the runtime may be waiting for the loop; missing data is no zero; time is monotonic.
//
// It holds no policy, which is allocate's, and neither client nor wire format: it declares ports, and cmd puts kube and node/nri there.
package node
