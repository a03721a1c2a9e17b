package configfile

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones

	"github.com/robfig/cron/v3"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/control/metrics"
)

// Peaks are planned peaks by workload, with their schedules read. The error names each mistake.
func Peaks(list []spec.PlannedPeak) (map[metrics.Workload][]forecast.Peak, error) {
	out := make(map[metrics.Workload][]forecast.Peak)
	var errs []error
	for i := range list {
		p := &list[i]
		bad := func(field, format string, args ...any) {
			errs = append(errs, &spec.FieldError{Field: fmt.Sprintf("metrics.peaks[%d].%s", i, field), Err: fmt.Errorf(format, args...)})
		}
		zone, err := time.LoadLocation(p.TimeZone)
		if err != nil || p.TimeZone == "Local" {
			bad("timeZone", "%q is no time zone that is known here; write one such as Europe/Berlin", p.TimeZone)
			continue
		}
		if strings.Contains(p.Schedule, "TZ=") {
			bad("schedule", "%q has a time zone in it; write that as timeZone", p.Schedule)
			continue
		}
		schedule, err := cron.ParseStandard(p.Schedule)
		if err != nil && p.Schedule != "" { // an empty one has been told of
			bad("schedule", "%q is no schedule: %w; write five fields, such as \"30 7 * * 1-5\"", p.Schedule, err)
		}
		if err != nil {
			continue
		}
		if _, every := schedule.(cron.ConstantDelaySchedule); every {
			bad("schedule", "%q begins at no time of its own; write five fields, such as \"30 7 * * 1-5\"", p.Schedule)
			continue
		}
		w := metrics.Workload{Namespace: p.Namespace, Kind: p.Kind, Name: p.Workload}
		out[w] = append(out[w], forecast.Peak{Name: p.Name, Begins: zoned{schedule, zone}, Duration: p.Duration.D(), Load: p.Load})
	}
	return out, errors.Join(errs...)
}

// zoned is a schedule in a time zone.
type zoned struct {
	cron.Schedule
	zone *time.Location
}

// Next implements forecast.Schedule.
func (z zoned) Next(after time.Time) time.Time { return z.Schedule.Next(after.In(z.zone)) }
