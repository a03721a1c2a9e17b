package calendar

import (
	"strings"
	"testing"
	"time"
)

// A window keeps its hour by the clock of its zone through the change to summer time; a date comes once.
func TestRead(t *testing.T) {
	for _, c := range []struct{ cron, date, zone, after, want string }{
		{"0 8 * * 1-5", "", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T06:00:00Z"}, // a Friday; on Sunday clocks change
		{"0 8 * * 1-5", "", "", "2026-03-27T12:00:00Z", "2026-03-30T08:00:00Z"},
		{"", "2026-11-27T08:00:00", "America/New_York", "2026-11-26T00:00:00Z", "2026-11-27T13:00:00Z"},
		{"", "2026-11-27T08:00", "", "2026-11-26T00:00:00Z", "2026-11-27T08:00:00Z"},
		{"", "2026-11-27T08:00:00", "", "2026-11-27T08:00:00Z", "0001-01-01T00:00:00Z"}, // it has begun
	} {
		s, err := Read(c.cron, c.date, c.zone)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		after, _ := time.Parse(time.RFC3339, c.after)
		if got := s.Next(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for _, c := range []struct{ cron, date, zone, want string }{
		{"0 8 * * 8", "", "", "is no schedule"},
		{"@every 1h", "", "", "at no time of its own"},
		{"TZ=UTC 0 8 * * *", "", "", "write that as timeZone"},
		{"", "", "", "is no schedule"},
		{"", "27.11.2026", "", "is no date"},
		{"", "2026-11-27T08:00:00Z", "", "is no date"},
		{"0 8 * * *", "2026-11-27T08:00:00", "", "write one of them"},
		{"0 8 * * *", "", "Atlantis", "no time zone"},
		{"", "2026-11-27T08:00:00", "Local", "no time zone"},
	} {
		if _, err := Read(c.cron, c.date, c.zone); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
