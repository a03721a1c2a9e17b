// Package throttle says how much of the memory bandwidth reclaimed pods may use, by what is measured of each domain of the last-level cache.
//
//	Observation{Domains: what all of the machine moves, and reclaimed pods of it} ─▶ Step ─▶ Decision{Domains: a percentage for each, HoldGrowth}
//
// The hardware's percentage (Intel RDT's MBA, AMD QoS) delays the requests of each thread; it is no cap on what all of them move together. Twice the threads move up to twice as much at the
// same percentage. So no fixed percentage keeps memory from being full, and feedback does: while a domain moves High of what it carries, the percentage falls by a step with each reading, to
// Least at the most. After Hold at no more than Low it rises by a step, up to the percentage that is configured. Between Low and High it stays. If a rise was too much, the next one waits
// twice as long, unless there is room for it even if reclaimed pods moved more in proportion. That is the memory controller of Heracles (ISCA 2015, 4.3), which takes cores because it has no such hardware: where ours has none, or is at Least, HoldGrowth says that no
// more cores are to be lent while a domain is full.
//
// For example, a domain carries 100 GB/s and moves 95, of which 40 are reclaimed pods', at 20 percent. It gets 10 percent at the next reading.
//
// Invariants: a percentage is between Least and Most. It falls only at a reading that is known and at High or beyond, of which reclaimed pods move a part that matters; it rises one step in
// each Hold, and only at a known reading of at most Low. What is not known changes nothing, until it has not been known for Stale: then Most counts again, as without this law. Domains do
// not know of each other. The same observations give the same decisions; a State has a bounded size.
//
// The package reads and writes nothing: package bandwidth reads, package rdt writes. It never says that somebody is harmed, and evicts nobody.
package throttle
