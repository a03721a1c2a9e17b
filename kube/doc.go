// Package kube watches a real cluster: it turns changes of API objects into facts.Events.
//
// One pod, from the watch to the Binding:
//
//	reflector (client-go) ─▶ podSink ─▶ parse.Parser ─▶ facts.PodUpserted ─▶ Watch.Events ─▶ the scheduler's goroutine
//	API server ◀─ lease.Fence ◀─ write.Writer's workers ◀─ write.Writer.Start(bind.Write) ◀──────────────────────────┘
//
// Watch lists and watches nodes, pods, and the objects that constraints of pods refer to. A reflector fills a sink instead of a cache: podSink for
// pods, a mirror for every other resource. A sink parses each object once and drops it. An update that parses to what is already known goes no
// further, so a kubelet's heartbeat costs one comparison. Events wait in a bounded channel for the one goroutine that owns the scheduler.
//
// Some APIs may be missing: PodGroup (of scheduling.k8s.io in the newest version that is both served and known, and of scheduling.x-k8s.io),
// Queue and CustomNodeResource. A missing API counts as one without objects. Hilbert looks for it again every 30 s and watches it once it is
// there. A unit is a PodGroup; where both groups have one of the same name, scheduling.k8s.io wins (unitBook). Hilbert does not read Workloads: a
// PodGroup copies all that its Workload says.
//
// Example. A Deployment creates 100 equal pods. The sink parses each, and all 100 share one set of Requirements, so that the ledger makes one class of
// them.
//
// Invariants: a Replace is a consistent list. Events of one resource are neither lost nor reordered. While the API server is unreachable, this package
// retries with a bounded backoff and never exits.
//
// The packages below have one purpose each: parse turns API objects into our words and knows no client; write carries out bind.Writes; apiserver makes
// connections and requests; lease elects the leader; agent has the clients of a node's agent; reach serves the command line tool. Package kube decides
// nothing, and it is not a cache of API objects.
package kube
