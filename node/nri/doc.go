// Package nri connects the agent to the container runtime: it is an NRI plugin, so kubelet and runtime stay unmodified. It turns the
// runtime's objects into node's own words and node's answers into adjustments.
//
// What always holds: no decision is made here; conversions are pure functions of what the runtime says; cgroup directories are the
// runtime's own, for both cgroup drivers, and never put together from names; a runtime that goes away or has NRI disabled is tried again
// for ever, ever more rarely, and is no reason to end.
//
// It does not know pods beyond the call at hand, writes no cgroup, and asks the runtime for nothing that node did not decide.
package nri
