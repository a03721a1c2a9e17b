package main

import (
	"testing"
	"time"
)

// TestRequests: a request takes what it took on average of late; one that waits longer counts already.
func TestRequests(t *testing.T) {
	t.Parallel()
	begun := time.Unix(0, 0)
	r := &requests{begun: begun, asked: begun}
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	if got := r.seconds(at(3)); got != 0 {
		t.Errorf("before the first window has ended: %g", got)
	}
	for i := 1; i <= 50; i++ {
		r.answered(at(float64(i) / 10))
	}
	if got := r.seconds(at(5.05)); got < 0.099 || got > 0.101 {
		t.Errorf("ten requests a second: %g", got)
	}
	if got := r.seconds(at(7)); got != 2 {
		t.Errorf("one that waits for two seconds: %g", got)
	}
	r.answered(at(11))
	if got := r.seconds(at(11)); got != 6 {
		t.Errorf("one in a window of six seconds: %g", got)
	}
}
