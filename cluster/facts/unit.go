package facts

import (
	"cmp"
)

// UnitName names a unit: the namespace and the name of its PodGroup.
type UnitName struct{ Namespace, Name string }

// String returns namespace/name.
func (n UnitName) String() string { return n.Namespace + "/" + n.Name }

// IsZero reports whether it names nothing: a pod that is a unit of its own.
func (n UnitName) IsZero() bool { return n == UnitName{} }

// Unit is a PodGroup as a door saw it. It is immutable: a change is a new Unit.
type Unit struct {
	UnitName
	UID     UID
	Created int64 // nanoseconds, see Pod
	// MinMember pods must have places together before any of them is bound; at least 1.
	MinMember int32
	// Timeout in nanoseconds from Created, after which the unit is said to have timed out; 0: the configuration's.
	Timeout int64
	// Priority of all members, if Prioritized; else each pod has its own.
	Priority      int32
	Prioritized   bool
	NeverPreempts bool
	// Indivisible: members are evicted all together or not at all, even those beyond MinMember.
	Indivisible bool
	// Divisible: members are evicted one by one, even those without whom fewer than MinMember are left. Never with Indivisible. A unit that says neither
	// loses those beyond MinMember one by one, and all else together.
	Divisible bool
	// Topology of the whole unit; SubgroupTopology of each subgroup for itself.
	Topology, SubgroupTopology Packing
	// Scheduled: the PodGroup says that it was whole once.
	Scheduled bool
	// Invalid says which field cannot be honoured and what to do; its pods are held. Empty: nothing.
	Invalid string
	// Reported is the condition that the PodGroup carries already.
	Reported UnitCondition
}

// UnitCondition is the PodGroupInitiallyScheduled condition; the zero value is none.
type UnitCondition struct {
	Met             bool // status True
	Reason, Message string
}

// Packing is what a unit asks of the topology. Each field is a node label, empty for nothing asked.
type Packing struct {
	// Required: all members in one domain of it.
	Required string
	// Preferred: in one domain of it if one holds them, else in as few as it takes.
	Preferred string
	// Spread: evenly over its domains, as far as they have room.
	Spread string
	// Uniform: the label has one value on all the members' nodes, for example one GPU model.
	Uniform string
}

// IsZero reports whether nothing is asked.
func (p Packing) IsZero() bool { return p == Packing{} }

func CompareUnitNames(a, b UnitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// SameUnit reports whether two observations of a PodGroup differ in its status at most.
func SameUnit(a, b Unit) bool {
	a.Scheduled, a.Reported = b.Scheduled, b.Reported
	return a == b
}
