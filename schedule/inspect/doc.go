// Package inspect answers questions about a scheduler: where is this pod, why does no node take it, what would help this gang, what do the
// queues have and want, what does the scheduler make of this node.
//
// Every answer is a value that is made from a Dump. Take copies out what a scheduler knows; that is all that happens in the scheduling loop,
// and it costs about 0.1 s at 200,000 pods. The rest happens beside the loop, or later on another machine: Write and ReadDump keep a dump in
// a file, and a file gives the same answers as the scheduler did.
//
//	dump := inspect.Take(scheduler, "hilbert", now)
//	answer, err := dump.ExplainUnit("ml", "train")
//	// answer.Blocks: quota: it asks for 6 GPU; queue ads has 4 GPU of 8 GPU in use
//	// answer.Changes: queue ads had 2 more GPU
//
// What would help is not guessed but tried. A rehearsal is a ledger made from the dump, with the same gate (schedule/admit) and the same
// placers (schedule/place) as the pipeline has; each change is made on it, one at a time, and reported only if the gang is placed then.
//
// The package changes no scheduler, reads no clock and renders no text: cmd/hilbert/render does.
package inspect
