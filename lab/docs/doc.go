// Package docs sends what the documentation shows to a real API server.
//
// Its test starts one control plane without controllers, installs the definitions and the admission policies of deploy, and goes through
// the blocks that internal/doctest finds in README, the tutorials and the how-tos: each manifest is applied as a server-side dry run, and so are the
// kubectl commands that write, with kubectl itself; those that read are run. So a page cannot show a field, a resource or a flag that the
// API server or kubectl does not know, nor a pod that the policies refuse.
//
// Invariants: only namespaces are really created. It is not a test of what comes of the objects: lab/demo and lab/scenario run the scheduler.
package docs
