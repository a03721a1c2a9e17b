package cluster

// Revision counts the changes of slots since the Store was made.
type Revision uint64

// LogCapacity is how many changes a Log remembers. A reader that has fallen further behind starts over from the state itself.
const LogCapacity = 1 << 16

// ChangeKind says what about a slot changed, so that readers can skip what cannot matter to them.
type ChangeKind uint8

const (
	// Charged: less is free than before.
	Charged ChangeKind = 1 << iota
	// Freed: more is free than before.
	Freed
	// Redefined: the node itself is new, gone, or has other properties.
	Redefined
	// Reimaged: the node has other images, which changes scores only.
	Reimaged
	// Recounted: pods on the node count in other tallies than before.
	Recounted
	// Lent: reclaimed pods may hold more of the node than before. Recalled: less. They change nothing for others.
	Lent
	Recalled
)

// Change is one entry of the log.
type Change struct {
	Slot Slot
	Kind ChangeKind
}

// Log is a bounded ring of the latest changes; entry number i is the change that made revision i+1.
type Log struct {
	entries []Change
	length  Revision
}

func (l *Log) append(c Change) {
	if len(l.entries) < LogCapacity {
		l.entries = append(l.entries, c)
	} else {
		l.entries[l.length%LogCapacity] = c
	}
	l.length++
}

// forget makes every reader start over.
func (l *Log) forget() {
	l.entries = l.entries[:0]
	l.length += LogCapacity + 1
	l.length -= l.length % LogCapacity
}

// Len is the revision of the newest entry.
func (l *Log) Len() Revision { return l.length }

// Covers reports whether all changes after revision since are still remembered.
func (l *Log) Covers(since Revision) bool {
	return since <= l.length && l.length-since <= Revision(len(l.entries))
}

// At returns the change that made revision r+1. The caller has checked Covers(r).
func (l *Log) At(r Revision) Change { return l.entries[r%LogCapacity] }
