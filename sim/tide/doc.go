// Package tide measures ways to have capacity when a load rises, on recorded loads, and what that costs offline work in the same cluster.
//
//	trace.Series ─▶ load by 15 s ─▶ scaler ─▶ replicas that start and get ready ─▶ cluster of slots, which offline jobs fill
//
// Three ways: HPA alone (upstream's algorithm on the live load), Hilbert (the same HPA on the greatest of the live load, a trusted forecast and planned
// peaks; slots that the forecast needs soon take no new jobs), and lending alone (as many replicas as the most so far needs, at all times; what they do
// not use is lent).
// Three more have nodes that change hands as a TidePool's do: by what replicas ask for with HPA alone; also by forecasts and planned peaks, of replicas and of nodes; and an oracle, which
// knows the load to come, so that what it misses no forecast can keep. Of these each time without capacity has a Cause, found beside the same autoscaler on slots that are free for both sides.
// The last quarter of a series is held out: it alone is judged, and forecasts have learnt from what was before, and go on learning.
//
// Invariants: a forecast sees a load when its time has come, as late as HPA sees it; the oracle alone sees more. All ways meet the same loads and the same lengths of jobs. The same files give the same figures.
//
// A replica is a slot, and so is a job: no scheduler and no machine is modelled, and of a node that changes hands only its slots and how long it takes. Between the points of a series loads are on a straight line, so bursts
// that are shorter than its step are hidden from all.
package tide
