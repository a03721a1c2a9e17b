package apiserver

import (
	"errors"
	"log/slog"
	"testing"
)

// A follower forgets what it watched only when the API is missing twice in a row.
func TestFollowerWaitsBeforeItForgets(t *testing.T) {
	absent := 0
	f := &Follower{What: "x", Log: slog.New(slog.DiscardHandler), told: true, version: "v1", Absent: func() error { absent++; return nil }}
	for i, c := range []struct {
		version string
		absent  int
	}{{"", 0}, {"v1", 0}, {"", 0}, {"", 1}, {"", 1}} {
		if err := f.Follow(t.Context(), c.version); err != nil || absent != c.absent {
			t.Errorf("step %d: %d times absent, err %v", i, absent, err)
		}
	}
	f.Absent = func() error { return errors.New("stopped") }
	f.version = "v1"
	_ = f.Follow(t.Context(), "")
	if f.Follow(t.Context(), "") == nil {
		t.Error("the failure is lost")
	}
}
