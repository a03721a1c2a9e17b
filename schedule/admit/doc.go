// Package admit decides what a unit may use before the search for nodes: how many of its members the limits of its queues leave room for,
// and which reserved nodes are open to it.
//
// Two things can stand in a unit's way besides nodes that are full. The first is quota: each queue from the unit's own to the root may have a
// limit. The second is reservations: a gang that has waited long gets nodes reserved for it, and the rest of its queues' limits, so that
// smaller units that come and go do not starve it. Gate.Ask answers the first, Reservations and Claims keep the second.
//
// Reservations are ranked, so that two gangs cannot block one another: queues within their guarantee come first, then higher priority, then
// longer waiting. A unit may use
//
//   - the nodes reserved for itself,
//   - the nodes of a gang of lower rank: that gang loses them and gets others later (Access.Lower),
//   - as a backfill, the nodes of any other gang, if the gang may preempt the unit, or if the unit ends before the gang could start.
//
// Example: gang big needs 4 nodes and has waited for 30 s. Reservations.Choose reserves the 4 nodes that become free first. A pod that runs
// for a minute asks for one CPU. Nodes that are not reserved take it; if they are full, it may backfill a reserved node on which another pod
// runs for an hour still, because it will have ended before big can start.
//
// Before either, Refuse holds back pods that can never be placed, with the condition that tells their owners what to change.
//
// The package changes the ledger only by reserving nodes and by telling it that a claimed limit has eased. The pipeline and what-if questions
// (schedule/inspect) use the same Gate, so both admit the same units.
package admit
