package dumpfile

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Names that only files use, by value. All other names are what String returns.
var (
	bindingNames = []string{
		topology.Unbound: "unbound", topology.Bound: "bound", topology.Exclusive: "exclusive",
	}
	rulerNames = []string{
		topology.RulerNone: "none", topology.RulerAgent: "agent", topology.RulerKubelet: "kubelet",
	}
)

// namesOf lists what String returns for the values 0, 1, 2, ... of a small enumeration.
func namesOf[T interface {
	~uint8
	fmt.Stringer
}]() (names []string) {
	for value := T(0); !strings.HasPrefix(value.String(), "unknown("); value++ {
		names = append(names, value.String())
	}
	return names
}

var (
	effectNames   = namesOf[facts.TaintEffect]()
	operatorNames = namesOf[facts.Operator]()
	workloadNames = namesOf[facts.WorkloadKind]()
	phaseNames    = namesOf[cluster.Phase]()
	sortNames     = namesOf[facts.SortPolicy]()
	headroomNames = namesOf[facts.HeadroomState]()
)

func nameOf[T ~uint8](names []string, value T) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}

// named is the value that has a name.
func named[T ~uint8](names []string, name string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	known := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	return 0, fmt.Errorf("%q is not known; known are %s", name, strings.Join(known, ", "))
}
