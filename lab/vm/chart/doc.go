// Package chart installs a release of Hilbert in a guest, as people install it: the release's image in containerd's store, the release's charts by helm, hilbertd, agent and
// watchdog as pods on an unmodified kubelet.
//
// Data flow: two releases are made of the tree, of one commit and two versions. A pod runs before Hilbert is there; helm installs the first release; a dedicated pod and a reclaimed
// one come; helm upgrades to the second release, rolls back, switches the agents off and on again, and uninstalls. For example, `helm uninstall` runs the Job hilbert-removal, whose wait ends when the pod of
// hilbert-cleanup has given back what the agent had set, and after it the pod that was there first has the CPUs that it had before.
//
// Invariants: what pods have is read from the guest's kernel; what Hilbert is, through the API server as a user would. Nothing of Hilbert runs outside of pods but the command
// hilbert of the release.
//
// It has no code but tests.
package chart
