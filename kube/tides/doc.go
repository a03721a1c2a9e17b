// Package tides reads TidePools and their nodes from the API server, gives nodes to sides, and writes what became of it.
//
// Data flow: cmd/hilbertd's role controller lists the pools and the nodes that carry their label, decides by control/tide over a snapshot of the leading scheduler, and has the
// Client patch the nodes and write the pools' statuses.
//
// Invariants: a pool that cannot be read is there with the reason, and its nodes stay as they are; a node is changed at the version that was read; each write checks the Fence, so
// that a deposed leader changes no node; of a node the label, the taint and the annotation of TidePools are written, and nothing else.
//
// The package decides nothing and evicts nobody: package kube/moves does that.
package tides
