// Package corun is the model of a machine on which online services and reclaimed jobs run side by side: what the one costs the other, and what a
// node's agent would see of it. ADR 0009 has the formulas, their sources, and what is assumed.
//
//	offered load (CPUs) ─┐
//	lent cores, jobs ────┼─▶ Node.Step: queues, shared cores, L3, memory bandwidth, clock, memory ─▶ late requests, use, work done
//	                     └─▶ Node.Observe: advise.Observation, from counters alone
//
// Time goes in steps of one second. Each NUMA node is a queueing station: its services wait for the CPUs of the shared pool there. What cannot be served within a
// second waits for the next.
//
// Invariants: no number is NaN or infinite; work that arrives is done, waits, or is counted as shed; more reclaimed work never makes a service faster, and more
// CPUs never make it slower. Observe reads what a kernel's counters would say, never the latencies. The same inputs give the same state on one
// architecture; a Node draws nothing itself.
//
// It is not a simulator of single requests or threads, and it knows no scheduler: package sim/colocation has a fleet of such machines.
package corun
