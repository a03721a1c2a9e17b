package advise

import (
	"fmt"
	"time"
)

// MemoryParams say how the memory laws act. Amounts are bytes, shares from 0 to 1.
type MemoryParams struct {
	// Least is the least limit that a reclaimed pod has, whatever its amount: less would kill it before it has begun.
	Least int64 `json:"least"`
	// Step is how far below what a pod holds its memory.high may be set, StepInterval how often it is lowered.
	Step         int64         `json:"step"`
	StepInterval time.Duration `json:"stepInterval"`

	// AskAt and AskTo are shares of a pod's limit: from the one it is reclaimed down to the other.
	AskAt float64 `json:"askAt"`
	AskTo float64 `json:"askTo"`
	// AskMost and AskLeast bound one request, AskTotal all of a tick.
	AskMost  int64 `json:"askMost"`
	AskLeast int64 `json:"askLeast"`
	AskTotal int64 `json:"askTotal"`
	// AskInterval is the pause after a request. One that got less than AskPoor of what it asked for doubles it, up to AskPause.
	AskInterval time.Duration `json:"askInterval"`
	AskPause    time.Duration `json:"askPause"`
	AskPoor     float64       `json:"askPoor"`
	// Pressure is the online pods' from which on nothing is asked for and nothing moves.
	Pressure float64 `json:"pressure"`

	// FreeLow and FreeHigh are shares of the memory of the node or a NUMA node: when less than the one is free, page cache is dropped up to the other.
	FreeLow  float64 `json:"freeLow"`
	FreeHigh float64 `json:"freeHigh"`
	// Keep is the inactive page cache that an online pod keeps then, as a share of its working set.
	Keep float64 `json:"keep"`

	// OffloadReclaimed and OffloadOnline switch offloading on for either kind of pod; of online pods page cache alone is taken.
	OffloadReclaimed bool `json:"offloadReclaimed"`
	OffloadOnline    bool `json:"offloadOnline"`
	// OffloadShare of what a pod holds is taken each OffloadInterval where it feels no pressure, less the more it feels, nothing from
	// OffloadPressure on.
	OffloadShare    float64       `json:"offloadShare"`
	OffloadPressure float64       `json:"offloadPressure"`
	OffloadInterval time.Duration `json:"offloadInterval"`
	// Refaults is the share of a pod's memory that may come back per second. Beyond it the interval doubles, up to AskPause, and a pod near its limit
	// is left to itself.
	Refaults float64 `json:"refaults"`
	// SwapReserve of the node's swap is left alone.
	SwapReserve int64 `json:"swapReserve"`

	// Moves switches moves between NUMA nodes on: of a pod with at most MoveMost in a NUMA node that has been short for MoveAfter, given up after
	// MoveDeadline, at most one in MoveInterval, and of one pod at most one in MoveRest.
	Moves        bool          `json:"moves"`
	MoveMost     int64         `json:"moveMost"`
	MoveAfter    time.Duration `json:"moveAfter"`
	MoveDeadline time.Duration `json:"moveDeadline"`
	MoveInterval time.Duration `json:"moveInterval"`
	MoveRest     time.Duration `json:"moveRest"`

	// Protect switches memory.low on for online pods: their requests, at most what they hold and LowMargin of it, at most LowShare of the node's
	// memory. It rises at once and falls after LowInterval. Of inactive page cache the part LowCache counts: where the kernel has the
	// multi-generational LRU on, cache that is read all the time is inactive too, so with less than 1 a pod that reads more would take it away.
	Protect     bool          `json:"protect"`
	LowCache    float64       `json:"lowCache"`
	LowMargin   float64       `json:"lowMargin"`
	LowShare    float64       `json:"lowShare"`
	LowInterval time.Duration `json:"lowInterval"`
}

// DefaultMemoryParams returns what suits a node of some 100 GiB.
func DefaultMemoryParams() MemoryParams {
	const mib = 1 << 20
	return MemoryParams{
		Least: 64 * mib, Step: 32 * mib, StepInterval: 5 * time.Second,
		AskAt: 0.9, AskTo: 0.8, AskMost: 256 * mib, AskLeast: 64 << 10, AskTotal: 1024 * mib,
		AskInterval: 2 * time.Second, AskPause: 5 * time.Minute, AskPoor: 0.25, Pressure: 0.1,
		FreeLow: 0.03, FreeHigh: 0.05, Keep: 0.25,
		OffloadReclaimed: true, OffloadShare: 0.002, OffloadPressure: 0.01, OffloadInterval: 6 * time.Second, Refaults: 0.002, SwapReserve: 64 * mib,
		Moves: true, MoveMost: 512 * mib, MoveAfter: 10 * time.Second, MoveDeadline: 30 * time.Second, MoveInterval: time.Minute, MoveRest: 10 * time.Minute,
		Protect: true, LowCache: 1, LowMargin: 0.1, LowShare: 0.7, LowInterval: time.Minute,
	}
}

// Validate returns an error for parameters under which the laws would not hold what they promise.
func (p *MemoryParams) Validate() error {
	for _, share := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"askAt", p.AskAt, 0, 1},
		{"askTo", p.AskTo, 0, p.AskAt},
		{"askPoor", p.AskPoor, 0, 1},
		{"pressure", p.Pressure, 0, 1},
		{"freeLow", p.FreeLow, 0, p.FreeHigh},
		{"freeHigh", p.FreeHigh, 0, 0.5},
		{"keep", p.Keep, 0, 10},
		{"offloadShare", p.OffloadShare, 0, 0.1},
		{"offloadPressure", p.OffloadPressure, 0.0001, 1},
		{"refaults", p.Refaults, 0, 1},
		{"lowCache", p.LowCache, 0, 1},
		{"lowMargin", p.LowMargin, 0, 1},
		{"lowShare", p.LowShare, 0, 0.9},
	} {
		if !(share.value >= share.low && share.value <= share.high) {
			return fmt.Errorf("%s is %g: want %g to %g", share.name, share.value, share.low, share.high)
		}
	}
	for _, bytes := range []struct {
		name  string
		value int64
	}{
		{"least", p.Least}, {"step", p.Step}, {"askMost", p.AskMost}, {"askLeast", p.AskLeast}, {"askTotal", p.AskTotal}, {"moveMost", p.MoveMost},
	} {
		if bytes.value < pageBytes || bytes.value > mostBytes {
			return fmt.Errorf("%s is %d: want %d to %d bytes", bytes.name, bytes.value, pageBytes, int64(mostBytes))
		}
	}
	for _, wait := range []struct {
		name  string
		value time.Duration
	}{
		{"stepInterval", p.StepInterval},
		{"askInterval", p.AskInterval},
		{"askPause", p.AskPause},
		{"offloadInterval", p.OffloadInterval},
		{"moveDeadline", p.MoveDeadline},
		{"moveInterval", p.MoveInterval},
	} {
		if wait.value < time.Second/10 || wait.value > 24*time.Hour {
			return fmt.Errorf("%s is %s: want 100ms to 24h", wait.name, wait.value)
		}
	}
	return nil
}
