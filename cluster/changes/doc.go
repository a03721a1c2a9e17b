// Package changes is how readers learn what changed in the ledger since they last looked.
//
// Each reader has its own cursor, the length of a log when it last read, and reading takes nothing away, so any number of readers follow the
// same log. There are two types:
//
//   - Log is a bounded list of the latest changes of slots. What a change means is a Kind.
//   - Things is a bounded list of other things that changed: gangs, queues, tenants. Between two reads it names a thing once, however often
//     the thing changes.
//
// A reader of a Log:
//
//	if !log.Covers(cursor) {
//		// The reader has fallen further behind than the log remembers: it starts over from the slots themselves.
//	}
//	for ; cursor < log.Len(); cursor++ {
//		log.At(cursor) // the change that made the log cursor+1 long
//	}
//
// What readers take in as a whole, such as the counts of a topology domain, has a version number instead: it differs whenever the thing does.
//
// The package holds no ledger and decides nothing.
package changes
