// Package scenario reads stories of a cluster: who comes and goes, what breaks, how long is waited, and what must be true then.
//
//	# A gang waits for its members.
//	nodes n count=8 cpu=16 mem=64 gpus=8 rack=4
//	queue ml guaranteed=gpu:32 weight=2
//	namespace train queue=ml
//	gang train/a min=4 size=3 gpu=8
//	run 30s
//	----
//	gang train/a: 0/3 bound (WaitingForMembers)
//
// A file is blocks, parted by empty lines. A block is commands, a line of four dashes, and what its run and show commands must print; a
// block without dashes prints nothing, or nothing that is held against it. Text after # is for people. docs/reference/simulator.md lists the commands.
//
// Invariants: Parse is a function of the text; what it refuses it refuses with the line and the way out; a State renders to text in which
// nothing depends on time, on the order of events or on the names of nodes, so that two players of one file can be compared.
//
// It does not play: the simulator does on a virtual clock, the lab on a real API server.
package scenario
