package dumpfile

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Names that only files use, by value. All other names are what String returns.
var (
	bindingNames = []string{
		topology.Unbound: "unbound", topology.Bound: "bound", topology.Exclusive: "exclusive", topology.BoundShared: "bound-shared",
	}
	rulerNames = []string{
		topology.RulerNone: "none", topology.RulerAgent: "agent", topology.RulerKubelet: "kubelet",
	}
)

// enum is a small enumeration whose values 0, 1, 2, ... have names. String of any other value begins with "unknown(".
type enum interface {
	~uint8
	fmt.Stringer
}

// valueOf is the value that has a name.
func valueOf[T enum](name string) (T, error) {
	var known []string
	for value := T(0); ; value++ {
		switch text := value.String(); {
		case strings.HasPrefix(text, "unknown("):
			return 0, fmt.Errorf("%q is not known; known are %s", name, strings.Join(known, ", "))
		case text == name:
			return value, nil
		case text != "":
			known = append(known, text)
		}
	}
}

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
