package changes

// Slot is the dense index of a node.
type Slot int32

// NoSlot is the Slot of a node that is not known.
const NoSlot Slot = -1

// Revision is the length of a Log: how many changes it has seen.
type Revision uint64

// Capacity is how many changes a Log remembers. A reader that has fallen further behind starts over.
const Capacity = 1 << 16

// Kind says what about a slot changed, so that readers can skip what cannot matter to them.
type Kind uint8

const (
	// Charged: less is free than before.
	Charged Kind = 1 << iota
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
	// Measured: the node uses more or less than before, which changes scores only.
	Measured
)

// Change is a change of one slot.
type Change struct {
	Slot Slot
	Kind Kind
}

// Log is a bounded ring of the latest changes of slots. It has a single writer.
type Log struct {
	entries []Change
	length  Revision
}

// Append adds a change.
func (l *Log) Append(c Change) {
	if len(l.entries) < Capacity {
		l.entries = append(l.entries, c)
	} else {
		l.entries[l.length%Capacity] = c
	}
	l.length++
}

// Forget makes every reader start over.
func (l *Log) Forget() {
	l.entries = l.entries[:0]
	l.length += Capacity + 1
	l.length -= l.length % Capacity
}

// Len is how many changes the log has seen: the revision of the newest entry.
func (l *Log) Len() Revision { return l.length }

// Covers reports whether all changes after a cursor are still remembered.
func (l *Log) Covers(cursor Revision) bool {
	return cursor <= l.length && l.length-cursor <= Revision(len(l.entries))
}

// At returns the change that made the log r+1 long. The caller has checked Covers(r).
func (l *Log) At(r Revision) Change { return l.entries[r%Capacity] }
