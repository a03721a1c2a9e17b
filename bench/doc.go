// Package bench measures decisions: how many placements a second one core makes, at what size of cluster, with what constraints.
//
// A Scenario is the one generator of all rows, and of the rows that compare with kube-scheduler in lab: machines with the shapes of a
// published GPU cluster and some jitter, so that hardly two are alike, in three zones; workloads with requests, selectors and
// tolerations; filled to a level, in a seeded order. A row then places pod after pod while the oldest leaves, so that the load stays
// level. Every row reports the number of distinct node states: nobody wins on identical nodes.
//
// It is not a test of speed: machines are noisy, so what it prints is compared within one run, never asserted.
package bench
