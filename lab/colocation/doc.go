// Package colocation plays half an hour of a morning on nodes that lend: the load of online services rises as it was recorded, reclaimed jobs of two
// queues use what the services leave, a gang runs in one rack, and in the middle all services want more at once and get their CPUs back.
//
// The API server, hilbertd and the agents are real. The agents are those of package node, whole, with their loops, lanes and throttles; below them
// package hollow plays the kernel and the runtime, and package sim/corun the machine: queues, late requests, shared cores, caches and memory. The
// package itself plays who makes the pods: a controller that keeps jobs waiting and starts over those that were evicted. The service on a part of a
// GPU runs on a node without an agent.
//
// All of them go by one clock (package internal/clock), which stands still until the player moves it on by a second. It does so when each agent has
// read its counters, has let its laws decide, and has carried out and reported what they decided, and when the API server has been quiet for a moment.
// So a machine that is too slow makes the clock slower, and the outcome stays what it is. hilbertd is not asked whether it is done: on a machine that
// keeps it from answering for longer than that moment, a pod is placed a second later than it might be. What talks to other processes goes by real time:
// hilbertd's Lease, and the time limits of requests.
//
// The control run has the same machines, services, load and stream of jobs, and no agent: jobs get what services do not ask for. No API server is
// needed for that: sums are enough.
//
// Invariants: whatever the record says was seen in the API server or on the machines' model; nothing is taken from an agent's own account. What was
// not played is not in it.
package colocation
