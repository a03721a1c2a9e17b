// Package overcommit says how much of a node's CPUs may be promised to services a second time, from what they use of what they asked for.
//
//	Reading: CPUs, what services asked for and use, run delay, pressure, harm ─▶ Step ─▶ Decision{Percent, Reason, ...}
//
// Pods stay for days, so what counts is not what services use now but the peak of the last week: the greatest of the last hour and of each hour of the week
// that was seen. At 100 percent services asked for all CPUs; the percent is the one at which that peak would fill Target of them.
//
// For example, services that never used more than 40 percent of what they asked for let 150 percent be promised at a Target of 0.6: the peak is 60 percent then.
//
// Ladder: while services wait for CPUs or one is harmed, nothing more than is promised already; after some minutes of it the percent falls by steps. It
// rises slowly, and after a calm time only. What falls is obeyed at once.
//
// Invariants: the percent is 100 where use is not known, was not seen for long enough, or harm could not be seen; it is never below 100 nor above Max. It rises by no
// more than Rise an hour. The same readings give the same decisions. A State has a bounded size.
//
// The package takes no CPU away: a lower percent only keeps further pods off. It says nothing of memory, which is not over-committed.
package overcommit
