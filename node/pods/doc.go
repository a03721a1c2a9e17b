// Package pods has the pods of the node: what the agent remembers of each, and what each asks for.
//
// The agent files each sandbox and each container that the runtime tells of in a Table, and forgets them when they end. A pod has one current sandbox; an older one of it may still stop later. Asked
// reads from a sandbox's labels and annotations what the allocator is asked for, and what the scheduler has promised.
//
// For example, the sandbox of a dedicated pod says "2000m", and its Binding "0:2/512Mi". Asked makes of it a request for two CPUs, bound to NUMA nodes, with a promise of NUMA node 0. Remember files the
// pod; Attach files its containers as they are created; Forget takes all of it out.
//
// Invariants: a pod is found by its UID, its current sandbox and its containers as long as it is here, and by none of them afterwards. Sorted has a stable order, so that what follows from it has too.
// What a tenant wrote and cannot be read is no promise: Asked says what is wrong with it. Fields that a controller keeps on a pod (its profile, what it may swap, the runtime's last word on its CPUs) are
// that controller's to write.
//
// A Table belongs to the agent's loop and has no lock. It decides nothing: which CPUs a pod has is node/allocate's to say.
package pods
