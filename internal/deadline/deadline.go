// Package deadline finds the earliest of several times at which something has to be done.
//
// A component that acts by itself after a while, such as a retry or a timeout, has a NextWake method: the time, and whether there is one. Whoever
// owns several components has to wake up at the earliest of their times:
//
//	var next deadline.Earliest
//	next.Add(binder.NextWake(now))
//	next.Add(relief.NextWake(now))
//	return next.Time()
//
// Invariant: Time is not after any time that was added. The package reads no clock; it is not a timer.
package deadline

import "time"

// Earliest is the earliest of the times that were added. The zero value has none.
type Earliest struct {
	at  time.Time
	set bool
}

// Add takes a time into account, unless ok is false. Its arguments are what a NextWake method returns.
func (e *Earliest) Add(at time.Time, ok bool) {
	if ok && (!e.set || at.Before(e.at)) {
		e.at, e.set = at, true
	}
}

// Time returns the earliest time; ok is false if none was added.
func (e *Earliest) Time() (at time.Time, ok bool) { return e.at, e.set }
