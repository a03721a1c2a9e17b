package index

import "hilbert.dev/hilbert/cluster/changes"

// sightings decide what gets an index of its own. An index costs as much to build as some tens of scans, and as much to keep up as there are
// changes; so it is for what is asked about again and again, before much has changed. What is asked about once, or by turns with a thousand
// others, is scanned for, and takes nobody's index away.
type sightings[K comparable] map[K]sighting

type sighting struct {
	at    changes.Revision
	close int // how often in a row it was asked about soon after the time before
}

// The bounds of sightings.
const (
	maxSightings  = 1 << 13
	maxPatience   = 24 // close sightings before an index is built
	scansPerSlots = 16 // following a change costs as much as scanning so many nodes, or more
	leastPatience = 32 // changes that are few in any cluster
)

// again notes that something is asked about now, and reports whether an index of it is worth its upkeep.
func (m sightings[K]) again(k K, now changes.Revision, slots int) bool {
	known, ok := m[k]
	if len(m) >= maxSightings && !ok {
		clear(m)
	}
	if ok && now-known.at <= soon(slots) {
		known.close++
	} else {
		known.close = 0
	}
	known.at = now
	m[k] = known
	return known.close > min(slots/1024, maxPatience)
}

// soon is how many changes may lie between two uses of an index that is worth its upkeep.
func soon(slots int) changes.Revision {
	return changes.Revision(max(slots/scansPerSlots, leastPatience))
}
