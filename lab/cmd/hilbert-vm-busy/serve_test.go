package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServe: requests are wanted at about the rate that was asked for whether or not they are answered in time, and none is answered sooner than its
// cost allows.
func TestServe(t *testing.T) {
	dir := stormy(t)
	const perSecond, cost, enough = 100, time.Millisecond, 150
	began := sinceBoot()
	if err := serve(server{perSecond: perSecond, cost: cost, workers: 2, renames: 3, dir: dir}, dir); err != nil {
		t.Fatal(err)
	}
	var wanted []int64
	for end := time.Now().Add(time.Minute); len(wanted) < enough; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests were answered in a minute", len(wanted))
		}
		text, err := os.ReadFile(filepath.Join(dir, "requests"))
		if err != nil {
			t.Fatal(err)
		}
		wanted = answered(t, string(text), began, cost)
	}
	span := float64(slices.Max(wanted)-slices.Min(wanted)) / 1e6
	if rate := float64(len(wanted)) / span; rate < perSecond/2.5 || rate > perSecond*2.5 {
		t.Errorf("%d requests were wanted in %.2f s, want about %d a second", len(wanted), span, perSecond)
	}
}

// answered reads when requests were wanted, of those that were answered; none before a time, or sooner than it costs.
func answered(t *testing.T, text string, began, cost time.Duration) (wanted []int64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var at, latency int64
		if _, err := fmt.Sscan(line, &at, &latency); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if latency < cost.Microseconds() || at < began.Microseconds() {
			t.Errorf("a request of %d was answered after %d µs; the server began at %d and each takes %s", at, latency, began.Microseconds(), cost)
		}
		wanted = append(wanted, at)
	}
	return wanted
}

// stormy is a directory in which files are renamed for as long as this process lives: removing it may fail, so no t.TempDir.
func stormy(t *testing.T) string {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestWork: what is done is counted, in each of the ways.
func TestWork(t *testing.T) {
	for name, begin := range map[string]func(d *done) error{
		"count": func(d *done) error { d.count(1); return nil },
		"wake":  func(d *done) error { d.wake(2); return nil },
		"walk":  func(d *done) error { d.walk(2); return nil },
		"storm": func(d *done) error { return d.storm(2, stormy(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := new(done)
			if err := begin(d); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := d.tally(dir); err != nil {
				t.Fatal(err)
			}
			for wait := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				var pieces int64
				text, _ := os.ReadFile(filepath.Join(dir, "work"))
				if _, err := fmt.Sscan(string(text), &pieces); err == nil && pieces > 0 {
					return
				}
				if time.Since(wait) > time.Minute {
					t.Fatalf("nothing was counted: %q", text)
				}
			}
		})
	}
}

// TestBursts: the first quarter of a period has more requests than the rest, and the mean is what was asked for.
func TestBursts(t *testing.T) {
	const period = 4 * time.Second
	s := server{burst: period}
	var sum float64
	for at := time.Duration(0); at < period; at += period / 8 {
		sum += s.rate(7*period + at)
	}
	if mean := sum / 8; mean != 1 || s.rate(0) <= s.rate(period/2) {
		t.Errorf("the mean rate is %g, at the begin %g, in the middle %g", mean, s.rate(0), s.rate(period/2))
	}
	if got := (&server{}).rate(period); got != 1 {
		t.Errorf("without bursts the rate is %g", got)
	}
}
