// Package oom says in which order the kernel kills processes when the node's memory is exhausted: reclaimed pods before shared ones, those before dedicated ones,
// and system pods last; within a level the lower priority first.
//
// The kernel kills the process with the highest points: its memory in thousandths of the node's, plus its oom_score_adj. The kubelet sets oom_score_adj by what a container
// requested, -997 to 1000, and knows no level: a shared container that requested little has 999, and dies before a reclaimed one that holds a little less. Score gives each
// level a band of values of its own:
//
//	reclaimed   901 to 1000
//	shared     -396 to  400
//	dedicated  -900 to -401
//	system     -997 to -901
//
// Within its band a container begins at the top. Each doubling of its pod's priority moves it down a little, and what it requested moves it down one to one, as with the
// kubelet. So of two pods of a level and a priority the one dies first that holds more than it requested.
//
// For example, on a node with 100 GiB a shared pod of priority 0 that requested 10 GiB has 400-64-100 = 236. While it holds what it requested it has 336 points. A reclaimed pod has
// 901 or more, whatever it holds: the shared pod would have to hold 66 GiB to die before it.
//
// What always holds: no value of a level is within another's band, and none is below -997, which leaves the kubelet and the container runtime (-999) for last. A container that
// the kubelet would not put below 2 is not put below 2 as a shared one either, so that the host's services (0) outlive it. It is a pure function. It does not say who is
// evicted, which is what package evict does, long before memory is exhausted.
package oom
