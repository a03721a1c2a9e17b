// Package config decides which NodeConfiguration is in force on which node, and how a change of one reaches the nodes.
//
// Data flow: the controller role gives Decide a View of all NodeConfigurations and of all nodes with an agent, and the time; Decide returns the writes that are due: what a
// node is told, and the status of a NodeConfiguration, which is all of its memory.
//
// Example: of 1,000 nodes a change that targets all reaches 50 first, by the hash of their names. When their agents have applied it, and 5 minutes have passed, the run
// delay of their online pods, the evictions and the readiness of their agents are compared with those of the others. If they fare no worse, 250 nodes have it, then all.
// If they fare worse, the 50 get back what they had.
//
// Invariants: resolution depends on the view alone and always gives one answer; at most a step's share of the targeted nodes (at least one) has a change that has not passed
// the gate of that step; what is not known is never good news: the change waits; a change that is taken back is not tried again before the object changes; an object with a
// mistake keeps its last good revision in force, and concerns no other object. What nodes are told follows from statuses that have been written, so that a controller that
// takes over decides as the one before it.
//
// The package sends nothing, and bounds no rate: the controller does.
package config
