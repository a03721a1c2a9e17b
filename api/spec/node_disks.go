package spec

import (
	"fmt"
	"path"
	"strings"
)

// EveryDisk stands for all disks of a node that nothing else names.
const EveryDisk = "*"

// IOCeiling is the limit of one disk; 0 is no limit.
type IOCeiling struct {
	// Device is the disk by the kernel's name, by a path that lies on it ("/var/log/pods"), or "*": each disk that no other ceiling names.
	Device string `json:"device"`
	// ReadBytesPerSecond is the most that a pod reads; 0: no limit.
	ReadBytesPerSecond uint64 `json:"readBytesPerSecond,omitempty"`
	// WriteBytesPerSecond is the most that a pod writes; 0: no limit.
	WriteBytesPerSecond uint64 `json:"writeBytesPerSecond,omitempty"`
	// ReadsPerSecond is the most read operations of a pod; 0: no limit.
	ReadsPerSecond uint64 `json:"readsPerSecond,omitempty"`
	// WritesPerSecond is the most write operations of a pod; 0: no limit.
	WritesPerSecond uint64 `json:"writesPerSecond,omitempty"`
}

// IODisk says what one disk can do, and what it shall keep for online pods.
type IODisk struct {
	// Device is the disk by the kernel's name ("nvme0n1"), by a path that lies on it ("/var/lib/containerd", without symbolic links), or "*": each disk that nothing else names.
	// A disk has what names it most closely, by name, then by path, then "*", and nothing of the others; costDevices name disks too.
	Device string `json:"device"`
	// Model is what the disk can do. With it io.cost is on. `hilbert node probe --disk` measures it.
	Model IOModel `json:"model,omitzero"`
	// Quality is when the disk counts as overloaded. With it io.cost is on.
	Quality IOQuality `json:"quality,omitzero"`
	// Latency is how long requests of online pods may take on average; beyond it the kernel slows reclaimed pods down on this disk (io.latency). It cannot be had beside
	// model and quality, which are io.cost's. 0: no such bound.
	Latency Duration `json:"latency,omitempty"`
}

// IOModel is what a disk can do per second: bytes, and operations of 4 KiB. All six are above 0, or all are 0: then the kernel guesses.
type IOModel struct {
	// ReadBytes is how much it reads.
	ReadBytes uint64 `json:"readBytes,omitempty"`
	// SequentialReads are reads in sequence.
	SequentialReads uint64 `json:"sequentialReads,omitempty"`
	// RandomReads are reads at random.
	RandomReads uint64 `json:"randomReads,omitempty"`
	// WriteBytes is how much it writes.
	WriteBytes uint64 `json:"writeBytes,omitempty"`
	// SequentialWrites are writes in sequence.
	SequentialWrites uint64 `json:"sequentialWrites,omitempty"`
	// RandomWrites are writes at random.
	RandomWrites uint64 `json:"randomWrites,omitempty"`
}

func (m *IOModel) complete() bool {
	return m.ReadBytes > 0 && m.SequentialReads > 0 && m.RandomReads > 0 && m.WriteBytes > 0 && m.SequentialWrites > 0 && m.RandomWrites > 0
}

// IOQuality says how long requests may take, and how far the kernel may speed the disk up or slow it down for that.
type IOQuality struct {
	// ReadPercentile is the percentile of reads that ReadLatency is of, from 0 to 100.
	ReadPercentile float64 `json:"readPercentile,omitempty"`
	// ReadLatency is what those reads take at most; 0: reads may take any time.
	ReadLatency Duration `json:"readLatency,omitempty"`
	// WritePercentile is the percentile of writes that WriteLatency is of, from 0 to 100.
	WritePercentile float64 `json:"writePercentile,omitempty"`
	// WriteLatency is what those writes take at most; 0: writes may take any time.
	WriteLatency Duration `json:"writeLatency,omitempty"`
	// LeastPercent is the least speed of the disk, in percent of the model's, from 1 to 10,000.
	LeastPercent float64 `json:"leastPercent,omitempty"`
	// MostPercent is the most speed, not less than LeastPercent.
	MostPercent float64 `json:"mostPercent,omitempty"`
}

// isDisk reports whether a text names disks: a name, an absolute path, or EveryDisk.
func isDisk(name string) bool {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name) == name && !strings.Contains(name, "\n")
	}
	return name != "" && !strings.ContainsAny(name, "/ \n")
}

// checkDisks checks what is said of disks, each of which is named once in a field.
func checkDisks(at string, names []string, bad report) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if !isDisk(name) || seen[name] {
			bad(fmt.Sprintf("%s[%d]", at, i), "%q: write the kernel's name of a disk, an absolute path that lies on it, or %q, each once", name, EveryDisk)
		}
		seen[name] = true
	}
}

// most of an average latency: beyond it the kernel's windows are longer.
const maxDiskLatency = 10_000_000_000

func (d *IODisk) check(at string, costs bool, bad report) {
	if d.Model != (IOModel{}) && !d.Model.complete() {
		bad(at+".model", "write all six numbers above 0, or none: `hilbert node probe --disk DIRECTORY` measures them")
	}
	q := &d.Quality
	if *q != (IOQuality{}) {
		for field, percentile := range map[string]float64{"readPercentile": q.ReadPercentile, "writePercentile": q.WritePercentile} {
			if !(percentile >= 0 && percentile <= 100) {
				bad(at+".quality."+field, "%v: want 0 to 100", percentile)
			}
		}
		if !(q.LeastPercent >= 1 && q.LeastPercent <= q.MostPercent && q.MostPercent <= 10_000) {
			bad(at+".quality.leastPercent", "%v, and mostPercent %v: want 1 to 10000, the least not above the most", q.LeastPercent, q.MostPercent)
		}
	}
	for field, latency := range map[string]Duration{"latency": d.Latency, "quality.readLatency": q.ReadLatency, "quality.writeLatency": q.WriteLatency} {
		if latency < 0 || latency > maxDiskLatency || latency%1000 != 0 {
			bad(at+"."+field, "%v: want 0s to 10s, in whole microseconds", latency.D())
		}
	}
	if d.Latency > 0 && (costs || d.costs()) {
		bad(at+".latency", "io.latency and io.cost both slow the disk down: remove latency, or model, quality and the disk in costDevices")
	}
}

// costs: io.cost is on.
func (d *IODisk) costs() bool { return d.Model != (IOModel{}) || d.Quality != (IOQuality{}) }
