package clock

import (
	"testing"
	"time"
)

// rung takes what has arrived: so many seconds after the start; -1 for nothing.
func rung(c <-chan time.Time, start time.Time) float64 {
	select {
	case at := <-c:
		return at.Sub(start).Seconds()
	default:
		return -1
	}
}

func TestASteppedClockRingsWhenItIsMovedThere(t *testing.T) {
	start := time.Now()
	c := NewStepped(start)
	timer, ticker := c.NewTimer(3*time.Second), c.NewTicker(2*time.Second)
	want := func(what string, got, want float64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %g s, want %g", what, got, want)
		}
	}
	time.Sleep(time.Millisecond)
	want("it stands still", c.Now().Sub(start).Seconds(), 0)
	c.Advance(2 * time.Second)
	want("the ticker after 2 s", rung(ticker.C(), start), 2)
	want("the timer after 2 s", rung(timer.C(), start), -1)
	c.Advance(7 * time.Second)
	want("the timer, overslept", rung(timer.C(), start), 9)
	want("the ticker, overslept, rings once", rung(ticker.C(), start), 9)
	want("and not again", rung(ticker.C(), start), -1)
	c.Advance(time.Second)
	want("the ticker keeps its rhythm", rung(ticker.C(), start), 10)
	want("the timer rings once", rung(timer.C(), start), -1)

	timer.Reset(0)
	want("a timer of no time rings at once", rung(timer.C(), start), 10)
	timer.Reset(time.Second)
	c.Advance(time.Second)
	timer.Reset(5 * time.Second)
	want("what rang before a Reset is gone", rung(timer.C(), start), -1)
	timer.Stop()
	ticker.Stop()
	c.Advance(time.Hour)
	want("a stopped timer", rung(timer.C(), start), -1)
	want("a stopped ticker", rung(ticker.C(), start), -1)
	if len(c.alarms) != 0 {
		t.Errorf("%d alarms are kept that nobody waits for", len(c.alarms))
	}
}

func TestWithoutAClockTimeIsReal(t *testing.T) {
	before := time.Now()
	c := OrReal(nil)
	timer, ticker := c.NewTimer(time.Millisecond), c.NewTicker(time.Millisecond)
	<-timer.C()
	<-ticker.C()
	timer.Reset(time.Hour)
	timer.Stop()
	ticker.Stop()
	if passed := c.Now().Sub(before); passed < time.Millisecond {
		t.Errorf("%s have passed", passed)
	}
}
