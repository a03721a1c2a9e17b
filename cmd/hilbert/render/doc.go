// Package render draws what people read of the scheduler on a terminal: where a pod or a gang is and what would help it, what a node offers,
// and the tree of queues with bars.
//
// It renders values of schedule/inspect, which depend on a dump of the scheduler and on nothing else, so an answer from a live hilbertd and one
// from a file read the same. It decides nothing, and it writes to the io.Writer that it is given only. JSON needs no package: the values
// marshal themselves.
//
//	dump, _ := inspect.ReadDump(file)
//	answer, _ := dump.Explain("default", "web-0")
//	_ = render.Pod(os.Stdout, answer)
package render
