// Package clock is the time that loops go by: the machine's, or one that a demonstration or a test moves on by hand.
//
// Real is what everything runs on. A Stepped clock stands still until Advance moves it; whoever holds it can have half an hour pass in a minute, and
// can wait after each second until all who go by it have done what that second asks for. So a busy machine makes it slower and changes nothing else.
// For example, an agent that looks each second looks ten times:
//
//	c := clock.NewStepped(time.Now())
//	// an agent runs on c
//	for range 10 {
//		c.Advance(time.Second)
//		// wait for the agent
//	}
//
// What talks to other processes (leases, time limits of requests) goes by real time always, and does not take a Clock.
package clock

import "time"

// Clock tells the time, and says when it is over. Several goroutines may use it.
type Clock interface {
	Now() time.Time
	NewTimer(d time.Duration) Timer
	NewTicker(d time.Duration) Ticker
}

// Timer is a time.Timer. After Reset and Stop no time of before arrives.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	Stop()
}

// Ticker is a time.Ticker: a tick that nobody has taken is not there twice.
type Ticker interface {
	C() <-chan time.Time
	Stop()
}

// Real is the machine's clock.
type Real struct{}

// OrReal is the clock, or Real if it is nil.
func OrReal(c Clock) Clock {
	if c == nil {
		return Real{}
	}
	return c
}

// Now implements Clock.
func (Real) Now() time.Time { return time.Now() }

// NewTimer implements Clock.
func (Real) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

// NewTicker implements Clock.
func (Real) NewTicker(d time.Duration) Ticker { return realTicker{time.NewTicker(d)} }

type realTimer struct{ timer *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.timer.C }
func (t realTimer) Reset(d time.Duration) { t.timer.Reset(d) }
func (t realTimer) Stop()                 { t.timer.Stop() }

type realTicker struct{ ticker *time.Ticker }

func (t realTicker) C() <-chan time.Time { return t.ticker.C }
func (t realTicker) Stop()               { t.ticker.Stop() }
