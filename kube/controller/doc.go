// Package controller is what the controller role asks of the API server and writes to it.
//
//	Watch   follows NodeConfigurations, Nodes and CustomNodeResources, and makes a config.View of them
//	Writer  tells nodes their configuration, and writes the status of NodeConfigurations
//
// Data flow: cmd/hilbertd's role controller takes a View, asks control/config what is due, and has the Writer write it. What was written counts in the next View, although
// the watch may not have told of it yet, so that nothing is written twice.
//
// Invariants: an object that cannot be read is in the View with the reason, and hides no other one; each write checks the Fence, so that a deposed leader writes nothing; a
// status is written at the version that was decided from; nodes are told at most MaxTellsPerSecond.
//
// The package decides nothing; package config does.
package controller
