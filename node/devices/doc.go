// Package devices knows the node's GPUs and network cards, and gives containers what their pods hold of them.
//
// The Controller has the devices looked at by an Inspector beside the agent's loop. From what was seen it decides which there are and under which numbers, which party gives the GPUs out, and which must not be
// promised; the allocator promises no others. The Injector turns what a pod holds into what a container gets: CDI devices, environment, mounts. Missed handles containers that started while no agent was
// there: one that lacks its pod's devices, or sees other GPUs, is ended, and the kubelet makes it anew.
//
// For example, a node has two GPUs and no device plugin. The first look numbers them 0 and 1, and writes that down before anybody is told. A pod is promised GPU 1; Inject answers nvidia.com/gpu=GPU-b. The GPU
// is replaced by another one: number 1 is closed, and GPU-b stays the name under which it is held.
//
// Invariants: a number that was promised is never another device, also over restarts. GPUs have one giver: if a device plugin offers them, the kubelet; while that is not known, nobody. What the kubelet gave
// and cannot be charged closes its GPU. A container whose devices are not certain is not made.
//
// It talks to no driver and no kubelet itself: what it asks comes by Ports. The rules are those of node/gpu, node/cdi and node/mps.
package devices
