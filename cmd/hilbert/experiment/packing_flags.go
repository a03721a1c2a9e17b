package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/internal/nearest"
)

// percentage reads the value of a flag such as 2%, and returns it as a part of one.
func percentage(text string) (part float64, err error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(percent >= 0 && percent <= 100) {
		return 0, fmt.Errorf("%q: want a percentage, for example 2%%", text)
	}
	return percent / 100, nil
}

// knownPolicies refuses the first policy that there is not.
func knownPolicies(names, known []string) error {
	for _, p := range names {
		if !slices.Contains(known, p) {
			return fmt.Errorf("%q is not known; write some of %s%s", p, strings.Join(known, ", "), nearest.Hint(p, known))
		}
	}
	return nil
}
