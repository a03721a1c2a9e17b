// Package elastic measures how fast a cluster gives online pods their cores back when their load rises, and how fast the reclaimed work that
// had to leave runs elsewhere.
//
// The API server and hilbertd are real. The nodes are hollow: each runs the agent's control laws over a modelled load. A queue of reclaimed
// pods fills what the nodes lend. Then the online load of a third of the nodes is multiplied, and later falls again. An evicted pod is
// created again at once, as its controller would do. Pods run no code: package hollow models what CPU they get from cpuset and weight, and a
// modelled kernel moves them without delay.
//
// Time is real, so the laws wait as long as on a real node. One exception: at the start, agents know what they would have learned in the three
// minutes that headroom takes to rise (hollow.LearnLawState). The short form evicts no pod, because that takes minutes too.
//
// A run records what was seen in a Result, and Judge reads nothing else. Each run has its own controls: nodes whose kernel shows no counters
// must not give cores back, which shows that the laws do it; and agents that are killed must lose their offer and nothing else.
package elastic
