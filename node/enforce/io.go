package enforce

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// canonicalWeight is the weight for all devices: "100", or "default 100" as the kernel says it. Weights for single devices, which the kernel
// lists below, have no owner.
func canonicalWeight(text string) (string, error) {
	weight, found := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		value, isDefault := strings.CutPrefix(line, "default ")
		if found || !isDefault && strings.Contains(line, ":") {
			continue
		}
		weight, found = value, true
	}
	n, err := canonicalInteger(1, 10_000)(weight)
	if err != nil {
		return "", err
	}
	return "default " + n, nil
}

// limitKeys are what io.max limits, in the order in which the kernel says it: bytes and operations per second, read and written.
var limitKeys = []string{"rbps", "wbps", "riops", "wiops"}

// canonicalLimits is a line for each device, "8:0 rbps=max wbps=1048576 riops=max wiops=max", by device. What a line does not name is max.
func canonicalLimits(text string) (string, error) {
	lines := []string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			limits, err := limits(fields)
			if err != nil {
				return "", err
			}
			lines = append(lines, limits)
		}
	}
	slices.Sort(lines)
	for i := 1; i < len(lines); i++ {
		if deviceOf(lines[i]) == deviceOf(lines[i-1]) {
			return "", fmt.Errorf("%q: a device has two lines", text)
		}
	}
	return strings.Join(lines, "\n"), nil
}

func limits(fields []string) (string, error) {
	major, minor, _ := strings.Cut(fields[0], ":")
	for _, number := range []string{major, minor} {
		if n, err := strconv.ParseUint(number, 10, 32); err != nil || strconv.FormatUint(n, 10) != number {
			return "", fmt.Errorf("%q: want a device's numbers, MAJOR:MINOR", fields[0])
		}
	}
	values := map[string]string{}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		if value != unlimited {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil || n == 0 {
				return "", fmt.Errorf("%q: want a number above 0, or %q", field, unlimited)
			}
			value = strconv.FormatUint(n, 10)
		}
		if !slices.Contains(limitKeys, key) || values[key] != "" {
			return "", fmt.Errorf("%q: want each of %v once at most", field, limitKeys)
		}
		values[key] = value
	}
	words := []string{fields[0]}
	for _, key := range limitKeys {
		if values[key] == "" {
			values[key] = unlimited
		}
		words = append(words, key+"="+values[key])
	}
	return strings.Join(words, " "), nil
}

func deviceOf(line string) string {
	device, _, _ := strings.Cut(line, " ")
	return device
}

// coversLimits reports whether the kernel has the limits that are wanted. It lists no device that has none.
func coversLimits(actual, want string) bool {
	has := strings.Split(actual, "\n")
	for line := range strings.SplitSeq(want, "\n") {
		device := deviceOf(line)
		listed := slices.ContainsFunc(has, func(l string) bool { return deviceOf(l) == device })
		if none, _ := limits([]string{device}); !slices.Contains(has, line) && (listed || line != none) {
			return false
		}
	}
	return true
}
