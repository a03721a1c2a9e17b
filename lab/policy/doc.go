// Package policy tests the admission policies of deploy/policies on a real API server.
//
// Its tests start one control plane without controllers and send requests as hilbertd's account, as the owner of a namespace, as a cluster
// administrator and as a node. A table says which requests are refused, and with which words. The requests are dry runs, so they can be repeated:
// a test removes each rule of the policies in turn, and then some row must have another result. Another test sends random pods, and wants them
// refused exactly where spec.QoSOf returns an error.
//
// Invariants: the policies under test are the files, unchanged. It does not test what the runtime does with the annotation that the policies set:
// the tests of the VM test bed do.
package policy
