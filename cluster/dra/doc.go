// Package dra says what the ResourceClaims of pods ask of nodes: it knows claims, device classes and resource slices, which pods use which claims, what devices
// are given to whom, and which of that is promised to pods whose Binding is under way.
//
// Example: pod train-0 uses claim train-0-gpu, which was made from a template and has no devices. Needs says that the claim has to be given what it asks for. The
// View of node n says whether it can be, there: it asks the Allocator, once. The ledger commits the pod to n, and Take gives the claim devices of n. From now on
// they are taken for all others. Obligations says that the API server must be told; once it is, Progress says that the pod can be bound.
//
// # Invariants
//
// A device that is given to one claim is given to no other, unless it may be shared: what is promised counts as what the API server says. What Take promised
// Release gives back, but for what may have been written: that stays taken until the watch, or the answer to the write that takes it back, says otherwise.
//
// A View is immutable. What it answers depends on nothing but the node, its slices, the classes and what is taken of them, so that it keeps its answers.
//
// The rules are those of Kubernetes' plugin DynamicResources (v1.37). The package chooses no device itself: that is the Allocator's, a port, since only an outside
// library can judge the expressions in claims and classes. It is no cache of API objects, and makes no API call.
package dra
