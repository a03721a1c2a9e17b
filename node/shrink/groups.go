package shrink

import (
	"strconv"
	"strings"

	"hilbert.dev/hilbert/node/advise"
)

// Groups reads back what the kernel has of the protection of some cgroups: advise.MemoryObservation.Groups. What cannot be read is not known.
func Groups(k Kernel, dirs []string) []advise.MemoryGroup {
	out := make([]advise.MemoryGroup, 0, len(dirs))
	for _, dir := range dirs {
		out = append(out, advise.MemoryGroup{
			Dir: dir, Low: bytesIn(k, dir+"/memory.low"), Min: bytesIn(k, dir+"/memory.min"), Current: bytesIn(k, dir+"/memory.current"),
		})
	}
	return out
}

// SwapRoom is what a pod may yet swap by memory.swap.max: what its containers may, as far as the pod itself may. The kubelet gives containers none
// unless it is configured to. It is known and 0 where there is no swap accounting, because swap cannot be relied on there.
func SwapRoom(k Kernel, pod string, containers []string) advise.Sample {
	own, known := roomIn(k, pod)
	if !known {
		return advise.Known(0)
	}
	var sum float64
	for _, c := range containers {
		room, _ := roomIn(k, c)
		sum += room
	}
	return advise.Known(min(own, sum))
}

// Swap is what a cgroup has in swap, and its own limit of that.
func Swap(k Kernel, dir string) (used, most advise.Sample) {
	return bytesIn(k, dir+"/memory.swap.current"), bytesIn(k, dir+"/memory.swap.max")
}

// roomIn is what one cgroup's own limit leaves for its swap.
func roomIn(k Kernel, dir string) (float64, bool) {
	most, used := bytesIn(k, dir+"/memory.swap.max"), bytesIn(k, dir+"/memory.swap.current")
	return max(most.Value-used.Value, 0), most.Known && used.Known
}

// bytesIn is the number in a file; "max" is advise.Unlimited.
func bytesIn(k Kernel, path string) advise.Sample {
	text, err := k.Read(path)
	text = strings.TrimSpace(text)
	if err == nil && text == "max" {
		return advise.Known(advise.Unlimited)
	}
	n, failed := strconv.ParseInt(text, 10, 64)
	if err != nil || failed != nil || n < 0 {
		return advise.Sample{}
	}
	return advise.Known(float64(n))
}

// Recursive reports whether the hierarchy at a mount point is mounted with memory_recursiveprot, by the text of /proc/mounts.
func Recursive(mounts, point string) bool {
	recursive := false
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != point || fields[2] != "cgroup2" {
			continue
		}
		recursive = false // the last mount of a point is the one that counts
		for option := range strings.SplitSeq(fields[3], ",") {
			recursive = recursive || option == "memory_recursiveprot"
		}
	}
	return recursive
}
