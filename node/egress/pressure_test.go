package egress

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// An interface counts as pressed when it was full, or lost packets, for ten seconds, until it was free for as long.
func TestPressure(t *testing.T) {
	var m PressureMemory
	var at time.Duration
	var sum Traffic
	sum.Received, sum.Sent, sum.Lost, sum.Link = advise.Known(0), advise.Known(0), advise.Known(0), advise.Known(1000)
	run := func(seconds int, received, sent, lost float64, want bool) {
		t.Helper()
		pressed := false
		for range seconds {
			at += time.Second
			sum.Received.Value, sum.Sent.Value, sum.Lost.Value = sum.Received.Value+received, sum.Sent.Value+sent, sum.Lost.Value+lost
			pressed, m = Pressure(at, sum, m)
		}
		if pressed != want {
			t.Errorf("after %v: pressed %v, want %v", at, pressed, want)
		}
	}
	run(20, 940, 100, 10, false)
	run(9, 960, 100, 0, false)
	run(1, 500, 100, 0, false)
	run(11, 960, 100, 0, true)
	run(20, 100, 850, 0, true) // not free yet
	run(10, 100, 700, 0, true)
	run(1, 100, 700, 0, false)
	run(11, 0, 0, 11, true)
	sum.Link = advise.Sample{}
	run(11, 5000, 0, 0, false) // nothing is lost, and how much it carries is not known
	run(11, 5000, 0, 11, true)
	sum.Sent.Known = false
	run(30, 0, 0, 0, true)
}

// Whatever is read: pressure neither begins nor ends sooner than ten seconds after it last did, nor by what is not known.
func TestPressureProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m PressureMemory
		at, changed, before := time.Duration(0), time.Duration(0), false
		value := rapid.Custom(func(t *rapid.T) advise.Sample {
			return advise.Sample{Value: rapid.Float64Range(0, 1e12).Draw(t, "value"), Known: rapid.IntRange(0, 9).Draw(t, "known") > 0}
		})
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			at += time.Duration(rapid.IntRange(0, 4).Draw(t, "after")) * time.Second
			now := Traffic{Received: value.Draw(t, "received"), Sent: value.Draw(t, "sent"), Lost: value.Draw(t, "lost"), Link: value.Draw(t, "link")}
			var pressed bool
			pressed, m = Pressure(at, now, m)
			if pressed != before && (at-changed < pressedAfter || !now.Lost.Known || !now.Sent.Known || !now.Received.Known) {
				t.Fatalf("it changed to %v at %v, %v after the last time, by %+v", pressed, at, at-changed, now)
			}
			if pressed != before {
				before, changed = pressed, at
			}
		}
	})
}
