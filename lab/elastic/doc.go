// Package elastic measures how soon a cluster gives online pods their cores back, and how soon the work that had to go for it runs elsewhere:
// hollow agents with a modelled load, hilbertd and the API server real, and a queue of reclaimed pods that fills what the nodes lend. Then the
// online load of a third of the nodes is a multiple of what it was, and falls again.
//
// Time is real: the laws wait as long as they do on nodes. Only the three minutes that a headroom takes to rise are left out at the start: agents begin
// with what they would have learned by then (hollow.Learned). In the short form nobody is evicted, since that takes minutes too.
//
// What happened is written down as it was seen (Result), and judged afterwards by nothing else (Judge). A run has its own controls: nodes whose kernel
// shows no counters must not give back, so that what the others do is the laws' doing; and agents that are killed must lose what they offered, and
// nothing else.
//
// Each pod that is evicted is made again at once, as its controller would. Pods run no code: what they get is what the model of package hollow gives
// them by cpuset and weight, as a fluid, and a kernel is never slow to move them.
package elastic
