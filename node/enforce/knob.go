package enforce

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// The files that may be knobs. OOMScoreAdj is no file of a cgroup: it stands for that file of each of the cgroup's processes.
const (
	CPUSet      = "cpuset.cpus"
	Mems        = "cpuset.mems"
	CPUWeight   = "cpu.weight"
	CPUIdle     = "cpu.idle"
	CPUMax      = "cpu.max"
	CPUMaxBurst = "cpu.max.burst"
	MemoryMax   = "memory.max"
	MemoryHigh  = "memory.high"
	MemoryLow   = "memory.low"
	MemoryMin   = "memory.min"
	SwapMax     = "memory.swap.max"
	ZswapMax    = "memory.zswap.max"
	IOWeight    = "io.weight"
	IOMax       = "io.max"
	IOLatency   = "io.latency"
	OOMScoreAdj = "oom_score_adj"
)

// LimitPeriod is the period of the agent's own CPUMax, in microseconds. Nobody else uses it: so the next agent, and the cleanup, know what an agent has left.
const LimitPeriod = 99_991

// Owner is the part of the agent that decides a knob's value.
type Owner string

// Knob is one setting of one cgroup. Cgroup is a directory below the root of the hierarchy, "kubepods/besteffort/pod1"; File is one of the
// constants above.
type Knob struct{ Cgroup, File string }

// Path is the knob's file below the root of the hierarchy.
func (k Knob) Path() string { return k.Cgroup + "/" + k.File }

// ErrOwned says that another owner has the knob.
var ErrOwned = errors.New("another owner has the knob")

// kind is how a file's values are checked and compared.
type kind struct {
	// canonical returns the one spelling of a value, or an error for what is none.
	canonical func(string) (string, error)
	// atLeast: a higher value in the kernel is right too.
	atLeast bool
	// covers, if set, reports whether the kernel's value has all that the wanted one says; what that does not say is left alone.
	covers func(actual, want string) bool
	// rounded: the kernel may keep another value than it was given.
	rounded bool
	// foreign, if set, reports whether the kernel's value is one that another process has set and that counts more than ours: it is not written over.
	foreign func(actual string) bool
}

// pageSize is what the kernel rounds memory limits down to. A larger page rounds further; then what was read back after a write is right.
const pageSize = 4096

// kinds are the files that may be knobs.
var kinds = map[string]kind{
	CPUSet:      {canonical: canonicalSet},
	Mems:        {canonical: canonicalSet},
	CPUWeight:   {canonical: canonicalInteger(1, 10_000)},
	CPUIdle:     {canonical: canonicalInteger(0, 1)},
	CPUMax:      {canonical: canonicalBandwidth, foreign: foreignLimit},
	CPUMaxBurst: {canonical: canonicalInteger(0, math.MaxInt)},
	MemoryMax:   {canonical: canonicalBytes, rounded: true},
	MemoryHigh:  {canonical: canonicalBytes, rounded: true},
	MemoryLow:   {canonical: canonicalBytes, rounded: true},
	MemoryMin:   {canonical: canonicalBytes, rounded: true},
	SwapMax:     {canonical: canonicalBytes, rounded: true},
	ZswapMax:    {canonical: canonicalBytes, rounded: true},
	IOWeight:    {canonical: canonicalWeight},
	IOMax:       {canonical: canonicalLimits, covers: coversLines},
	IOLatency:   {canonical: canonicalLatencies, covers: coversLines},
	OOMScoreAdj: {canonical: canonicalInteger(-1000, 1000), atLeast: true},
}

// right reports whether the kernel's value does what the wanted one asks. Both are canonical.
func (k *kind) right(actual, want string) bool {
	if k.covers != nil {
		return k.covers(actual, want)
	}
	if actual == want || !k.atLeast {
		return actual == want
	}
	a, errA := strconv.Atoi(actual)
	w, errW := strconv.Atoi(want)
	return errA == nil && errW == nil && a >= w
}

func canonicalSet(text string) (string, error) {
	set, err := topology.ParseCPUSet(text)
	return set.String(), err
}

func canonicalInteger(least, most int) func(string) (string, error) {
	return func(text string) (string, error) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < least || n > most {
			return "", fmt.Errorf("%q: want a whole number from %d to %d", text, least, most)
		}
		return strconv.Itoa(n), nil
	}
}

const unlimited = "max"

func canonicalBytes(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == unlimited {
		return text, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return "", fmt.Errorf("%q: want a number of bytes, or %q", text, unlimited)
	}
	return strconv.FormatInt(n/pageSize*pageSize, 10), nil
}

// defaultPeriod is the kernel's cpu.max period in microseconds, where a value names none.
const defaultPeriod = "100000"

func canonicalBandwidth(text string) (string, error) {
	fields := strings.Fields(text)
	if len(fields) == 1 {
		fields = append(fields, defaultPeriod)
	}
	if len(fields) != 2 {
		return "", fmt.Errorf("%q: want QUOTA PERIOD in microseconds, where QUOTA may be %q", text, unlimited)
	}
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if i == 0 && field == unlimited {
			continue
		}
		if err != nil || n <= 0 {
			return "", fmt.Errorf("%q: %q is no time in microseconds", text, field)
		}
		fields[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(fields, " "), nil
}

// foreignLimit reports whether cpu.max has a limit that is not of an agent.
func foreignLimit(actual string) bool {
	quota, period, _ := strings.Cut(actual, " ")
	return quota != unlimited && period != strconv.Itoa(LimitPeriod)
}

// below returns an error for a directory that is not strictly below the root: such a knob would be of the whole machine, or of no cgroup.
func below(cgroup string) error {
	for name := range strings.SplitSeq(cgroup, "/") {
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("cgroup %q: want a directory below the root, without %q", cgroup, name)
		}
	}
	return nil
}
