// Package calendar reads when something begins: a cron expression with a time zone, or one date.
//
// Data flow: an API object or a configuration file has texts; Read makes a Schedule of them, which control/forecast and control/tide ask for the next beginning. Expressions
// are read as Kubernetes' CronJobs read them.
//
// Invariants: what cannot be read is an error that names what to write instead. The time zone is given apart, so that one and the same expression is never read in two.
package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones

	"github.com/robfig/cron/v3"
)

// Schedule is when something begins.
type Schedule interface {
	// Next is the first beginning after an instant, zero if there is none.
	Next(after time.Time) time.Time
}

// Cron reads a cron expression in a time zone; an empty one is UTC.
func Cron(expression, zone string) (Schedule, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	if strings.Contains(expression, "TZ=") {
		return nil, fmt.Errorf("%q has a time zone in it; write that as timeZone", expression)
	}
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("%q is no schedule: %w; write five fields, such as \"30 7 * * 1-5\"", expression, err)
	}
	if _, every := schedule.(cron.ConstantDelaySchedule); every {
		return nil, fmt.Errorf("%q begins at no time of its own; write five fields, such as \"30 7 * * 1-5\"", expression)
	}
	return zoned{schedule, location}, nil
}

// ErrZone is the error of a time zone that is not known.
var ErrZone = errors.New("no time zone that is known here")

// Zone is a time zone by its name; an empty one is UTC.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is %w; write one such as Europe/Berlin", name, ErrZone)
	}
	return zone, nil
}

// zoned is a cron expression in a time zone.
type zoned struct {
	cron.Schedule
	zone *time.Location
}

// Next implements Schedule.
func (z zoned) Next(after time.Time) time.Time { return z.Schedule.Next(after.In(z.zone)) }

// Once reads one date by the clock of a time zone, such as 2026-11-27T08:00:00.
func Once(date, zone string) (Schedule, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, date, location); err == nil {
			return once(at), nil
		}
	}
	return nil, fmt.Errorf("%q is no date; write one such as 2026-11-27T08:00:00, and the time zone as timeZone", date)
}

type once time.Time

// Next implements Schedule.
func (o once) Next(after time.Time) time.Time {
	if at := time.Time(o); at.After(after) {
		return at
	}
	return time.Time{}
}

// Read reads a cron expression or one date, whichever is written.
func Read(expression, date, zone string) (Schedule, error) {
	switch {
	case expression != "" && date != "":
		return nil, errors.New("a cron expression and a date are there; write one of them")
	case date != "":
		return Once(date, zone)
	}
	return Cron(expression, zone)
}
