// Package volumes says what the volumes of pods ask of nodes: it knows claims, volumes, storage classes, drivers and what these can provision, which pods
// use which claims, and which volumes are promised to pods whose Binding is under way.
//
// Example: pod db-0 uses claim data-db-0, whose class waits for a pod and has a driver. Needs says that a volume is provisioned for it wherever the class
// allows. The ledger commits the pod to node n, and Take promises claim and node to each other. Obligations says that the claim must be told its node. The
// driver provisions a volume, the claim becomes bound, Progress says so, and the pod is bound.
//
// # Invariants
//
// A volume is promised to one claim at most, and a claim is promised one volume or one node. What Take promised Release gives back, whole. What is
// promised is part of what Needs says of other pods, as if the API server had it already.
//
// The rules are those of Kubernetes' plugins VolumeBinding, VolumeZone and, for ReadWriteOncePod, VolumeRestrictions (v1.37).
//
// The package is no cache of API objects, makes no API call and chooses no node.
package volumes
