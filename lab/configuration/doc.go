// Package configuration tests hilbertd's role controller on a real API server, with the account, the permissions and the policies of deploy/: a NodeConfiguration
// reaches nodes step by step, and one that harms is taken back.
//
// The agents are those of package node, whole: each watches its own CustomNodeResource and reports as in production. Package hollow plays the kernel below them. They go by a
// clock that the test moves on whenever all of them have done what the last step of it asks for, so that two minutes of a node's health take as long as the machine needs.
// The controller goes by real time: what it waits for is what agents say, and it tells fifty nodes a second.
package configuration
