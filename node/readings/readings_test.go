package readings

import (
	"context"
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/internal/clock"
)

// texts says of each key when it was read.
type texts struct {
	reads  int
	closed bool
}

func (s *texts) Read(at time.Duration, wanted []string) (map[string]string, string) {
	s.reads++
	out := make(map[string]string)
	for _, key := range wanted {
		if key != "unknown" {
			out[key] = fmt.Sprint(key, " at ", at)
		}
	}
	return out, fmt.Sprint("read ", s.reads)
}

func (s *texts) Close() string {
	s.closed = true
	return "closed"
}

// TestPoller: what was read last is known until it is too old, and nothing is after the end.
func TestPoller(t *testing.T) {
	t.Parallel()
	at, s := clock.NewStepped(time.Unix(1000, 0)), &texts{}
	p := New(s, 5*time.Second, at)
	check := func(key, want string) {
		t.Helper()
		if got, known := p.Of(key, at.Now()); got != want || known != (want != "") {
			t.Errorf("%s is %q, known %t; want %q", key, got, known, want)
		}
	}
	check("a", "")
	p.Watch([]string{"a", "unknown"})
	begun := at.Now()
	at.Advance(5 * time.Second)
	p.Read(begun)
	check("a", "a at 5s")
	check("b", "")
	check("unknown", "")
	at.Advance(15 * time.Second)
	check("a", "a at 5s")
	at.Advance(time.Second)
	check("a", "")
	p.Watch([]string{"b"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Run(ctx) // reads once, and ends
	check("b", "")
	if !s.closed || s.reads != 2 || p.Status() != "closed" {
		t.Errorf("closed %t after %d readings: %s", s.closed, s.reads, p.Status())
	}
}
