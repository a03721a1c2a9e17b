// Package colocation is an experiment: a fleet of modelled machines (package corun) whose online services follow real tides, an endless backlog of
// offline jobs that the real scheduler places, and on each node the real laws and the real eviction manager.
//
//	tides ─▶ corun.Node ─Observe─▶ advise.Step, evict.Step ─▶ lent cores, report ─lag─▶ schedule.Scheduler ─Binding─▶ jobs on corun.Node
//
// Run plays the same days several times: with requests only, with naive over-commitment, with Hilbert, and with Hilbert without one of its laws. What
// it measures the laws never see.
//
// Invariants: a run is a function of its Options, whatever else runs beside it; every figure is of the model's own counts; a job is on one node at a
// time; what is evicted starts over elsewhere, or there if the scheduler says so.
//
// It is not a proof about real machines: ADR 0009 says what the model leaves out.
package colocation
