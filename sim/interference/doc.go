// Package interference measures how well a harmful neighbour is told, on the machine model of package corun.
//
//	seed ─▶ mix: services under load, neighbours that come and go, perhaps a hog ─▶ corun.Node ─▶ node/interference.Watch ─▶ what was said and done
//
// In half of the mixes a hog comes: many threads, or much memory bandwidth, or much cache. The others are controls, in which every alarm is false. Mixes
// with one set of seeds were used to tune parameters, the figures are of others.
//
// Invariants: a Watch sees what counters and the service's indicator would say, with noise, and never the latencies. The same seeds give the same
// figures on one architecture.
//
// One machine and its own agent are modelled; no scheduler and no kernel.
package interference
