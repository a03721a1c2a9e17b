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
func canonicalLimits(text string) (string, error) { return canonicalLines(text, limits) }

// canonicalLatencies is a line for each device, "8:0 target=5000", by device: in microseconds, 0 for none.
func canonicalLatencies(text string) (string, error) { return canonicalLines(text, latency) }

func canonicalLines(text string, canonical func(fields []string) (string, error)) (string, error) {
	lines := []string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			one, err := canonical(fields)
			if err != nil {
				return "", err
			}
			lines = append(lines, one)
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

func latency(fields []string) (string, error) {
	if err := checkDevice(fields[0]); err != nil {
		return "", err
	}
	target := uint64(0)
	for _, field := range fields[1:] {
		value, ok := strings.CutPrefix(field, "target=")
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil || len(fields) > 2 {
			return "", fmt.Errorf("%q: want target= and a time in microseconds", strings.Join(fields, " "))
		}
		target = n
	}
	return fmt.Sprintf("%s target=%d", fields[0], target), nil
}

func checkDevice(numbers string) error {
	major, minor, _ := strings.Cut(numbers, ":")
	for _, number := range []string{major, minor} {
		if n, err := strconv.ParseUint(number, 10, 32); err != nil || strconv.FormatUint(n, 10) != number {
			return fmt.Errorf("%q: want a device's numbers, MAJOR:MINOR", numbers)
		}
	}
	return nil
}

func limits(fields []string) (string, error) {
	if err := checkDevice(fields[0]); err != nil {
		return "", err
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

// coversLines reports whether the kernel has the lines that are wanted. It lists no device that has no limit.
func coversLines(actual, want string) bool {
	has := strings.Split(actual, "\n")
	for line := range strings.SplitSeq(want, "\n") {
		device := deviceOf(line)
		listed := slices.ContainsFunc(has, func(l string) bool { return deviceOf(l) == device })
		none := strings.HasSuffix(line, " target=0")
		if free, _ := limits([]string{device}); line == free {
			none = true
		}
		if !slices.Contains(has, line) && (listed || !none) {
			return false
		}
	}
	return true
}
