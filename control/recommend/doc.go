// Package recommend says how much CPU and memory the pods of a workload should ask for, and how to bring running pods there.
//
//	samples of use ─▶ Profile ─▶ Recommendation ─┐
//	policy, pods, rollout, budget ───────────────┴▶ Decide ─▶ []Action
//
// A Profile keeps decaying histograms of a workload's CPU and the memory peaks of its last days. For CPU it plays candidates on what it sees: each is a
// half-life, a percentile and a margin, and the one with the least cost so far is recommended. For memory it takes the highest peak and a margin that
// follows how much the peaks of days differ.
//
// Decide changes one pod, then a share of the pods as a canary, then all. It takes the change back when a changed pod runs out of memory or is
// throttled more than its control group, and waits longer each time before it tries again. Pods of the control group are never changed.
//
// Invariants: memory never shrinks below the peak of the days kept plus a margin. What is not known is no sample and moves nothing. Every Action names
// its reason in words. No call disturbs more pods than the budget of the view. The same arguments give the same answer.
//
// The package reads no cluster and writes none: the controller brings samples and pods, and carries Actions out.
package recommend
