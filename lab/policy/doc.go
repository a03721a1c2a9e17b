// Package policy tries the admission policies of deploy/policies on a real API server.
//
// Its tests start one control plane without controllers and send requests as hilbertd's account, as the owner of a namespace, as a
// cluster administrator and as a node. Each request is a row of a table that says whether it is refused, and with which words. The rows
// are dry runs, so they can be sent again: each rule of the policies is taken out in turn, and then some row must come out wrong.
// A second test draws pods and demands of the door the verdict of spec.QoSOf.
//
// Invariants: the policies under test are the files, unchanged. It is not a test of what the runtime does with the annotation that the
// policies set: that is for the machine with a kernel.
package policy
