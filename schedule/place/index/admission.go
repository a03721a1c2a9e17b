package index

import "hilbert.dev/hilbert/cluster/changes"

// sightings decide what gets an index of its own. An index costs as much to build as some tens of scans, and as much to keep up as there are
// changes; so it is for what is asked about again and again, before much has changed. What is asked about once, or by turns with a thousand
// others, is scanned for, and takes nobody's index away.
type sightings[K comparable] map[K]sighting

type sighting struct {
	at    changes.Revision
	close int  // how often it was asked about soon after the time before; halved when it was not soon
	dear  bool // its last search looked at many nodes
}

// The bounds of sightings.
const (
	maxSightings  = 1 << 13
	maxPatience   = 24  // close sightings before an index is built
	scansPerSlots = 16  // following a change costs as much as scanning so many nodes, or more
	leastPatience = 32  // changes that are few in any cluster
	searchCosts   = 512 // following so many changes costs more than a search
)

// again notes that something is asked about now, and reports whether an index of it is worth its upkeep: it was asked about often, with no more than
// a few changes between.
func (m sightings[K]) again(k K, now, few changes.Revision, patience int) bool {
	known, ok := m[k]
	if len(m) >= maxSightings && !ok {
		clear(m)
	}
	if ok && now-known.at <= few {
		known.close++
	} else {
		known.close /= 2
	}
	known.at = now
	m[k] = known
	return known.close > patience
}

// cost notes how many nodes a search for it looked at, of so many.
func (m sightings[K]) cost(k K, looked, slots int) {
	if known, ok := m[k]; ok {
		known.dear = changes.Revision(looked) > soon(slots)
		m[k] = known
	}
}

// changesBetween is how many changes may lie between two uses of an index that is worth its upkeep.
func (ix *Index) changesBetween(bounded, dear bool) changes.Revision {
	few := soon(ix.snapshot.Slots())
	if bounded && !dear {
		few = min(few, searchCosts)
	}
	return few
}

// patience is how often in a row something is asked about soon before it gets an index.
func (ix *Index) patience() int {
	if ix.givenPatience != nil {
		return *ix.givenPatience
	}
	return min(ix.snapshot.Slots()/1024, maxPatience)
}

// soon is that where a scan of all nodes is the other choice.
func soon(slots int) changes.Revision {
	return changes.Revision(max(slots/scansPerSlots, leastPatience))
}
