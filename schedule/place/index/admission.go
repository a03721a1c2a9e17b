package index

import "hilbert.dev/hilbert/cluster/changes"

// usage decides what gets an index of its own. An index costs as much to build as some tens of scans, and as much to keep up as there are changes. So it
// is for what is asked about again and again, before much has changed. What is asked about once, or by turns with a thousand others, is searched for or
// scanned for, and takes away no index that others use.
type usage[K comparable] map[K]use

type use struct {
	last   changes.Revision
	close  int  // how often it was asked about with few changes since the time before; halved when there were more
	costly bool // its last search looked at many nodes
}

// The bounds of usage.
const (
	maxUsage         = 1 << 13
	maxUses          = 24  // close uses before an index is built
	nodesPerChange   = 16  // an index follows a change at the cost of scanning so many nodes, or more
	minChanges       = 32  // so many changes are few in any cluster
	changesPerSearch = 512 // an index follows so many changes at the cost of a search
)

// earnsIndex notes that something is asked about now, and reports whether an index of it is worth its upkeep: whether it was asked about more often
// than a number of uses, each time with no more than a few changes since the time before.
func (m usage[K]) earnsIndex(k K, now, few changes.Revision, uses int) bool {
	known, ok := m[k]
	if len(m) >= maxUsage && !ok {
		clear(m)
	}
	if ok && now-known.last <= few {
		known.close++
	} else {
		known.close /= 2
	}
	known.last = now
	m[k] = known
	return known.close > uses
}

// searched notes how many nodes the search for something looked at, of so many.
func (m usage[K]) searched(k K, looked, slots int) {
	if known, ok := m[k]; ok {
		known.costly = changes.Revision(looked) > changesPerScan(slots)
		m[k] = known
	}
}

// fewChanges is how many changes may lie between two uses of an index that is worth its upkeep. Without the index a search answers, if scores are
// bounded, or a scan.
func (ix *Index) fewChanges(bounded, costly bool) changes.Revision {
	few := changesPerScan(ix.snapshot.Slots())
	if bounded && !costly {
		few = min(few, changesPerSearch)
	}
	return few
}

// usesBeforeIndex is how often in a row something is asked about before it gets an index.
func (ix *Index) usesBeforeIndex() int {
	if ix.givenUses != nil {
		return *ix.givenUses
	}
	return min(ix.snapshot.Slots()/1024, maxUses)
}

// changesPerScan is how many changes an index follows at the cost of a scan of all nodes.
func changesPerScan(slots int) changes.Revision {
	return changes.Revision(max(slots/nodesPerChange, minChanges))
}
