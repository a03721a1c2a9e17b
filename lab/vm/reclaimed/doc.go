// Package reclaimed tests what an unmodified kubelet does with reclaimed pods, which ask for resources that their node does not list.
//
// Data flow: package join makes a node of a guest, with the definitions and the admission policies of deploy/ but without scheduler and agent.
// The tests create pods as users write them, bind them by hand, and look at the kubelet's verdict and at the guest's cgroups while the headroom
// falls: in the CustomNodeResource, where it belongs, and in the Node's status, where it does not.
//
// Invariants: TestUnlisted shows what Hilbert relies on; TestListed shows why. Pods that ran before a change of headroom are identified by their
// process, so a restarted one counts as lost.
//
// It has no code but tests. The tests of package agent cover what the agent does with such a pod.
package reclaimed
