// Package quiet keeps interrupts, and the host's own services, off the CPUs that pods hold for themselves.
//
//	held CPUs + what each place has ─▶ Decide ─▶ writes; Keeper keeps what was there before, on disk, and gives it back
//
// For example, a dedicated pod gets CPUs 4-5 of eight. Interrupt 24, which the CPUs 0-7 may serve, goes to 0-3,6-7, and so does system.slice. When the pod has gone, both have
// 0-7 again.
//
// Invariants: what a place had before is on disk before the place is written. A place is given CPUs that it had before, as long as one of them is left, else any that no pod
// holds; where pods hold all, it is left as it was. Without held CPUs, without the setting, and at the removal of the agent every place has what it had before. An interrupt that the kernel does
// not let go (of a queue that the driver has bound to a CPU) is left alone, and so is one that somebody else moves again and again, until no pod holds CPUs or the agent starts again.
//
// It decides nothing about CPUs of pods, and does not move tasks of the kernel.
package quiet

import (
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Place is what runs on CPUs: an interrupt, "irq/24", or a cgroup of the host, "system.slice".
type Place string

const interruptPrefix = "irq/"

// Interrupt reports whether a place is an interrupt, and its number.
func (p Place) Interrupt() (number string, ok bool) {
	return strings.CutPrefix(string(p), interruptPrefix)
}

// maxReverted is how often a place is written that somebody else then changes, while pods hold CPUs: irqbalance would go on for ever.
const maxReverted = 3

// Kept is what is known of a place that was written.
type Kept struct {
	// Before is what it had; empty: of a cgroup, all. Wrote is what it was given.
	Before topology.CPUSet `json:"before"`
	Wrote  topology.CPUSet `json:"wrote"`
	// Reverted is how often somebody else has changed it since. It is not kept over restarts, for a machine that boots has none of it either.
	Reverted int `json:"-"`
}

// State is what is known of all places that were written.
type State map[Place]Kept

// Write gives a place CPUs; an empty set of a cgroup means all.
type Write struct {
	Place Place
	CPUs  topology.CPUSet
}

// Observation is what is seen.
type Observation struct {
	// All are the machine's CPUs, and Held those that pods have for themselves.
	All, Held topology.CPUSet
	// Places are what each has now. Unread are places that are there and could not be read: they stay as they are.
	Places map[Place]topology.CPUSet
	Unread map[Place]bool
}

// Decide returns what has to be written, by place, and the state after that. wanted says which places are kept off held CPUs. left are places that somebody else changes again
// and again.
func Decide(o *Observation, wanted func(Place) bool, before State) (writes []Write, after State, left []Place) {
	after = make(State, len(before))
	for place := range o.Unread {
		if kept, known := before[place]; known {
			after[place] = kept
		}
	}
	for _, place := range slices.Sorted(maps.Keys(o.Places)) {
		has := o.Places[place]
		kept, known := before[place]
		base := has
		if known {
			base = kept.Before
			if has != kept.Wrote { // somebody else's doing is what it has without us
				base = has
				kept.Reverted++
			}
		}
		want := base
		if wanted(place) && !o.Held.IsEmpty() {
			if kept.Reverted > maxReverted {
				left = append(left, place)
				after[place] = Kept{Before: has, Wrote: has, Reverted: kept.Reverted}
				continue
			}
			want = quiet(base, o)
		}
		if want != has {
			writes = append(writes, Write{place, want})
		}
		if want != base {
			after[place] = Kept{Before: base, Wrote: want, Reverted: kept.Reverted}
		}
	}
	return writes, after, left
}

// quiet is what a place has beside pods that hold CPUs.
func quiet(base topology.CPUSet, o *Observation) topology.CPUSet {
	had := base
	if had.IsEmpty() {
		had = o.All
	}
	if out := had.Minus(o.Held); out == had {
		return base
	} else if !out.IsEmpty() {
		return out
	}
	if out := o.All.Minus(o.Held); !out.IsEmpty() {
		return out
	}
	return base
}
