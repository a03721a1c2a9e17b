// Package controller has what the controllers of a node's agent share.
//
// A controller is responsible for one concern of the node, and owns all state of it. The agent (package node) calls its controllers from one goroutine, the loop, in a fixed order: each Ticker at each
// tick. A Node is what they work on together: the pods, the allocator, what is known of the container runtime, and the ways to the loop, to the kernel and to people.
//
// For example, the devices' controller finds at a tick that a GPU has failed. It tells Node.Manager, which promises the GPU no more, says so with Node.Events, and returns true if placements have changed;
// then the agent applies that. The look at the GPU itself took long and ran beside the loop, by Node.Loop.Work; its result came back as a message.
//
// Invariants: nothing of a Node is touched outside the loop but Log and Loop. Tick does not block. Config is one value for the life of the agent and is changed in place, so a controller reads it anew each
// time. Counts only grow.
//
// It has no controllers itself, and no port to the API server or a disk: a controller is given the one port that it needs.
package controller
