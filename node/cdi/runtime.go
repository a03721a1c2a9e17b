package cdi

import (
	"fmt"
	"strconv"
	"strings"
)

// Drops says why a container runtime would make containers without the CDI devices that a plugin asks for, and say nothing; empty: it gives them, or it
// is not known to drop them. runtime is its name and version, "containerd v2.4.2". containerd hands them on since 2.1, and in 1.7 since 1.7.30
// (containerd pull requests 12650 and 12651).
func Drops(runtime string) string {
	name, version, _ := strings.Cut(runtime, " ")
	if name != "containerd" {
		return ""
	}
	var parts [3]int
	for i, text := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", len(parts)) {
		end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
		if end >= 0 {
			text = text[:end]
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return ""
		}
		parts[i] = int(n)
	}
	major, minor, patch := parts[0], parts[1], parts[2]
	if major > 2 || major == 2 && minor >= 1 || major == 1 && minor == 7 && patch >= 30 {
		return ""
	}
	return fmt.Sprintf("%s %s drops CDI devices that plugins ask for: 2.1 or 1.7.30 is needed", name, version)
}
