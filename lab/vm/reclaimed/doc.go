// Package reclaimed holds the tests of what an unmodified kubelet does with reclaimed pods: they ask for resources that its node does not list.
//
// Data flow: package join makes a node of a guest, with the definitions and the admission policies of deploy/ but without scheduler and agent.
// The tests create pods as people write them, bind them by hand, and look at the kubelet's verdict and at the guest's cgroups, while
// headroom falls: in the CustomNodeResource, where it belongs, and in the Node's status, where it does not.
//
// Invariants: TestUnlisted is what is relied on, TestListed why it is so. Pods that ran before a change of headroom are looked for by their
// process, so one that was started again counts as lost.
//
// It has no code but tests. What the agent then does with such a pod is the business of package agent's tests.
package reclaimed
