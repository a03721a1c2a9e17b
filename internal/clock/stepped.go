package clock

import (
	"sync"
	"time"
)

// Stepped is a clock that stands still until it is moved on.
type Stepped struct {
	mu     sync.Mutex
	now    time.Time
	alarms map[*alarm]bool // those that are set
}

// NewStepped returns a clock that shows a time.
func NewStepped(at time.Time) *Stepped { return &Stepped{now: at, alarms: make(map[*alarm]bool)} }

// Now implements Clock.
func (s *Stepped) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Advance moves the clock on. What falls due on the way is told the time at which the clock stands then, once, as a sleeper is who has overslept.
func (s *Stepped) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	for a := range s.alarms {
		if s.now.Before(a.due) {
			continue
		}
		a.ring(s.now)
		if a.every <= 0 {
			delete(s.alarms, a)
			continue
		}
		for !s.now.Before(a.due) {
			a.due = a.due.Add(a.every)
		}
	}
}

// NewTimer implements Clock.
func (s *Stepped) NewTimer(d time.Duration) Timer {
	a := &alarm{clock: s, c: make(chan time.Time, 1)}
	a.Reset(d)
	return a
}

// NewTicker implements Clock.
func (s *Stepped) NewTicker(d time.Duration) Ticker {
	a := &alarm{clock: s, c: make(chan time.Time, 1), every: max(d, time.Nanosecond)}
	a.Reset(d)
	return a
}

// alarm is a timer or a ticker.
type alarm struct {
	clock *Stepped
	c     chan time.Time
	due   time.Time
	every time.Duration // 0: once
}

// C implements Timer and Ticker.
func (a *alarm) C() <-chan time.Time { return a.c }

// Reset implements Timer.
func (a *alarm) Reset(d time.Duration) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.silence()
	a.due = a.clock.now.Add(d)
	if d <= 0 && a.every == 0 {
		a.ring(a.clock.now)
		return
	}
	a.clock.alarms[a] = true
}

// Stop implements Timer and Ticker.
func (a *alarm) Stop() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.silence()
}

// silence takes back what was set. The clock's lock is held.
func (a *alarm) silence() {
	delete(a.clock.alarms, a)
	select {
	case <-a.c:
	default:
	}
}

// ring tells the time, unless the last time was not taken yet.
func (a *alarm) ring(now time.Time) {
	select {
	case a.c <- now:
	default:
	}
}
