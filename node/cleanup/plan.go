package cleanup

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/node/enforce"
)

// Part is a group of files that the agent sets together.
type Part string

// The parts.
const (
	CPU    Part = "cpu"    // cpusets and cpu.idle
	Memory Part = "memory" // limits and protection
	IO     Part = "io"     // weights, ceilings, latencies, io.cost
)

// Parts are all of them.
func Parts() []Part { return []Part{CPU, Memory, IO} }

const (
	// costQuality is at the root of the hierarchy only.
	costQuality = "io.cost.qos"
	unlimited   = "max"
	// defaultPeriod is that of the kubelet's limits of CPU; the agent's own are of enforce.LimitPeriod.
	defaultPeriod = "100000"
	// kubeletWeight is the cpu.weight that the kubelet gives a pod that asks for no CPU.
	kubeletWeight = "1"
)

// files are what a part may have set.
var files = map[Part][]string{
	CPU:    {enforce.CPUSet, enforce.Mems, enforce.CPUIdle, enforce.CPUMaxBurst, enforce.CPUMax},
	Memory: {enforce.MemoryHigh, enforce.MemoryMax, enforce.MemoryLow, enforce.SwapMax, enforce.ZswapMax},
	IO:     {enforce.IOWeight, enforce.IOMax, enforce.IOLatency, costQuality},
}

// Cgroup is a cgroup with its files as the kernel has them. A file that it lacks has no value.
type Cgroup struct {
	Dir    string // below the root of the hierarchy; "" is the root
	Values map[string]string
}

// Write is one write to a file.
type Write struct {
	Path, Value string
	// Else, if set, is written where the kernel refuses the value.
	Else string
}

// Available is what all pods may use together: the effective sets of the cgroup above them.
type Available struct{ CPUs, Mems string }

// level is what a cgroup is to the kubelet.
type level int

const (
	group level = iota // of pods of one class
	pod
	container
)

// podName is the cgroup of a pod: "pod" and its UID, by itself or at the end of the name of a slice.
var podName = regexp.MustCompile(`(^|-)pod[0-9a-f][0-9a-f_-]+(\.slice)?$`)

func levelOf(dir string) level {
	if podName.MatchString(path.Base(dir)) {
		return pod
	}
	for dir = path.Dir(dir); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if podName.MatchString(path.Base(dir)) {
			return container
		}
	}
	return group
}

// Plan lists what has to be written, parents before what is in them, so that the parts are as on a node without an agent.
func Plan(parts []Part, all []Cgroup, available Available) (out []Write) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Cgroup) int { return cmp.Compare(a.Dir, b.Dir) })
	for _, c := range sorted {
		for _, part := range Parts() {
			if !slices.Contains(parts, part) {
				continue
			}
			for _, file := range files[part] {
				if value, ok := c.Values[file]; ok {
					out = append(out, plan(&c, file, strings.TrimSpace(value), available)...)
				}
			}
		}
	}
	return out
}

// plan is Plan for one file.
func plan(c *Cgroup, file, value string, available Available) []Write {
	write := func(value string) []Write { return []Write{{Path: path.Join(c.Dir, file), Value: value}} }
	at := levelOf(c.Dir)
	bestEffort := at == pod && strings.Contains(c.Dir, "besteffort")
	switch {
	case file == enforce.CPUSet && value != "":
		return sets(c.Dir, file, value, available.CPUs, at)
	case file == enforce.Mems && value != "":
		return sets(c.Dir, file, value, available.Mems, at)
	case file == enforce.CPUIdle && value == "1" && bestEffort:
		return append(write("0"), Write{Path: path.Join(c.Dir, enforce.CPUWeight), Value: kubeletWeight})
	case file == enforce.CPUMax && at == pod && strings.HasSuffix(value, " "+strconv.Itoa(enforce.LimitPeriod)) && !strings.HasPrefix(value, unlimited):
		return write(unlimited + " " + defaultPeriod)
	case file == enforce.MemoryHigh && at == pod && value != unlimited, file == enforce.MemoryMax && bestEffort && value != unlimited:
		return write(unlimited)
	case (file == enforce.SwapMax || file == enforce.ZswapMax) && bestEffort && value != unlimited:
		return write(unlimited)
	case file == enforce.SwapMax && levelOf(path.Dir(c.Dir)) == pod && strings.Contains(c.Dir, "besteffort") && value != unlimited && value != "0":
		return write("0") // the kubelet lets BestEffort containers swap nothing
	case file == enforce.MemoryLow && value != "0", file == enforce.CPUMaxBurst && value != "0" && value != "":
		return write("0")
	case file == enforce.IOWeight && value != defaultWeight && value != "":
		return write(defaultWeight)
	case file == enforce.IOMax && at == pod:
		return lines(value, func(device, _ string) (Write, bool) {
			return Write{Path: path.Join(c.Dir, file), Value: device + " rbps=max wbps=max riops=max wiops=max"}, true
		})
	case file == enforce.IOLatency:
		return lines(value, func(device, _ string) (Write, bool) {
			return Write{Path: path.Join(c.Dir, file), Value: device + " target=0"}, true
		})
	case file == costQuality && c.Dir == "":
		return lines(value, func(device, settings string) (Write, bool) {
			return Write{Path: file, Value: device + " enable=0"}, slices.Contains(strings.Fields(settings), "enable=1")
		})
	}
	return nil
}

// defaultWeight is io.weight as the kernel makes it.
const defaultWeight = "default 100"

// sets frees a cpuset. The kernel lets nobody empty that of a cgroup with processes, so that a container's gets all that there is.
func sets(dir, file, value, all string, at level) []Write {
	switch {
	case at != container:
		if value == all {
			return nil // it may be that it could not be emptied
		}
		return []Write{{Path: path.Join(dir, file), Value: "\n", Else: all}}
	case value == all:
		return nil
	default:
		return []Write{{Path: path.Join(dir, file), Value: all}}
	}
}

// lines makes a write of each line, which is a device and what is set for it.
func lines(text string, write func(device, settings string) (Write, bool)) (out []Write) {
	for line := range strings.Lines(text) {
		device, settings, _ := strings.Cut(strings.TrimSpace(line), " ")
		if w, ok := write(device, settings); ok && device != "" {
			out = append(out, w)
		}
	}
	return out
}
