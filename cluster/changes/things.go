package changes

// Things is a log of things that changed. It has a single writer, and names a thing once between two reads.
//
// For example, a gang of which 1,000 members are placed one after the other is one entry, if no reader reads in between. Every reader still
// learns of it: its cursor is not past the last read, and the entry comes after that.
//
// What no reader has read is never dropped: it is at most as much as there are things. Of what one reader has read, the log keeps the latest
// Kept entries for the others.
type Things[T any] struct {
	entries []T      // the first of them made the log dropped+1 long
	dropped Revision // entries that are not remembered
	read    Revision // the length when a reader read last
}

// Kept is how many entries that one reader has read Things remembers for the others.
const Kept = 1 << 12

func (l *Things[T]) length() Revision { return l.dropped + Revision(len(l.entries)) }

// Note names a thing that changed. last is the thing's own record of when it was last named; it belongs to this log.
func (l *Things[T]) Note(thing T, last *Revision) {
	if *last <= l.read {
		l.entries = append(l.entries, thing)
		*last = l.length()
	}
}

// Since appends to list what changed after the cursor, the earliest first, and moves the cursor to the newest entry. complete is false for a
// reader that has fallen further behind than the log remembers: it must look at every thing.
func (l *Things[T]) Since(cursor *Revision, list []T) (_ []T, complete bool) {
	complete = *cursor >= l.dropped
	if complete {
		list = append(list, l.entries[*cursor-l.dropped:]...)
	}
	l.Skip(cursor)
	return list, complete
}

// Skip moves the cursor of a reader that need not know to the newest entry.
func (l *Things[T]) Skip(cursor *Revision) {
	*cursor, l.read = l.length(), l.length()
	if n := len(l.entries); n >= 2*Kept {
		copy(l.entries, l.entries[n-Kept:])
		clear(l.entries[Kept:])
		l.entries = l.entries[:Kept]
		l.dropped += Revision(n - Kept)
	}
}
