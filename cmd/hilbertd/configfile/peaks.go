package configfile

import (
	"errors"
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/internal/calendar"
)

// Peaks are planned peaks by workload, with their schedules read. The error names each mistake.
func Peaks(list []spec.PlannedPeak) (map[metrics.Workload][]forecast.Peak, error) {
	out := make(map[metrics.Workload][]forecast.Peak)
	var errs []error
	for i := range list {
		p := &list[i]
		if (p.Schedule == "") == (p.Begins == "") {
			continue // it has been told of
		}
		schedule, err := calendar.Read(p.Schedule, p.Begins, p.TimeZone)
		if err != nil {
			field := "schedule"
			switch {
			case errors.Is(err, calendar.ErrZone):
				field = "timeZone"
			case p.Begins != "":
				field = "begins"
			}
			errs = append(errs, &spec.FieldError{Field: fmt.Sprintf("metrics.peaks[%d].%s", i, field), Err: err})
			continue
		}
		w := metrics.Workload{Namespace: p.Namespace, Kind: p.Kind, Name: p.Workload}
		out[w] = append(out[w], forecast.Peak{Name: p.Name, Begins: schedule, Duration: p.Duration.D(), Load: p.Load})
	}
	return out, errors.Join(errs...)
}
