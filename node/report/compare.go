package report

import (
	"reflect"
	"slices"

	"hilbert.dev/hilbert/api/spec"
)

// Change is how much of a report has changed since it was last written.
type Change uint8

// The changes.
const (
	// Same: nothing.
	Same Change = iota
	// Minor: what only people look at, pools and the words of conditions. Pods come and go, and with them the pools; that alone would keep
	// every node writing.
	Minor
	// Major: what the scheduler acts on, or a condition that holds or no longer does.
	Major
)

// Compare says how much has changed. With nothing written yet, old is nil.
func Compare(old, now *spec.NodeReport) Change {
	switch {
	case old == nil || !sameZones(old.Status, now.Status) || !slices.EqualFunc(old.Conditions, now.Conditions, sameState):
		return Major
	case !slices.Equal(old.Status.Pools, now.Status.Pools) || !slices.Equal(old.Conditions, now.Conditions):
		return Minor
	}
	return Same
}

// sameZones compares all but the pools.
func sameZones(a, b spec.NodeStatus) bool {
	a.Pools, b.Pools = nil, nil
	return reflect.DeepEqual(a, b)
}

// sameState compares all but the words.
func sameState(a, b spec.NodeCondition) bool {
	a.Message, b.Message = "", ""
	return a == b
}
