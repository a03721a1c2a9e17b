package plan

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbertd/history"
	"hilbert.dev/hilbert/control/target"
)

// maxMeasures bounds the questions.
const maxMeasures = 32

// past are the flags of what is asked of Prometheus.
type past struct {
	server      spec.Prometheus
	measures    []string
	since, step time.Duration
}

func newPast() past {
	p := past{server: spec.Default().Metrics.Prometheus, since: 7 * 24 * time.Hour, step: 5 * time.Minute}
	p.server.URL = ""
	return p
}

func (p *past) flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.server.URL, "prometheus", "", "where a server with Prometheus's HTTP API is, such as http://prometheus:9090")
	flags.StringVar(&p.server.TokenFile, "prometheus-token-file", "", "with --prometheus: a file with a bearer token for it")
	flags.StringVar(&p.server.CAFile, "prometheus-ca-file", "", "with --prometheus: a PEM file with the authorities of its certificate")
	flags.StringArrayVar(&p.measures, "measure", nil, "with --prometheus: NAME=QUERY of a measure (repeatable)")
	flags.DurationVar(&p.since, "since", p.since, "with --prometheus: how far back is asked")
	flags.DurationVar(&p.step, "step", p.step, "with --prometheus: the time between two values")
}

// series asks for the indicator and the measures at the same times.
func (p *past) series(ctx context.Context, indicator string, now time.Time) (*target.Series, error) {
	switch {
	case p.step < time.Second || p.since < p.step:
		return nil, exitcode.Usagef("plan target: --step %s, --since %s: want a step of a second at least, and more than one", p.step, p.since)
	case p.since/p.step > history.MaxPoints:
		return nil, exitcode.Usagef("plan target: %d steps of %s in %s: at most %d are asked for; write a longer --step", p.since/p.step, p.step, p.since, history.MaxPoints)
	case len(p.measures) == 0 || len(p.measures) > maxMeasures:
		return nil, exitcode.Usagef("plan target: %d --measure: want 1 to %d, each NAME=QUERY", len(p.measures), maxMeasures)
	}
	client, err := history.New(&p.server)
	if err != nil {
		return nil, exitcode.Mark(exitcode.BadInput, err)
	}
	defer client.Close()
	now = now.Truncate(p.step)
	s := newSeries()
	if s.Indicator, err = p.ask(ctx, client, indicator, now); err != nil {
		return nil, fmt.Errorf("--indicator: %w", err)
	}
	for _, measure := range p.measures {
		name, query, ok := strings.Cut(measure, "=")
		if !ok || name == "" || query == "" || s.Measures[name] != nil {
			return nil, exitcode.Usagef("plan target: --measure %q: want NAME=QUERY, each name once", measure)
		}
		if s.Measures[name], err = p.ask(ctx, client, query, now); err != nil {
			return nil, fmt.Errorf("--measure %s: %w", name, err)
		}
	}
	return s, nil
}

// ask is what a query is at each step; NaN is not known.
func (p *past) ask(ctx context.Context, client *history.Client, query string, now time.Time) ([]float64, error) {
	from := now.Add(-p.since)
	points, err := client.Range(ctx, query, from, now, p.step)
	if err != nil {
		return nil, err
	}
	rows := make([]float64, p.since/p.step+1)
	for i := range rows {
		rows[i] = math.NaN()
	}
	for _, point := range points {
		if i := int(point.At.Sub(from) / p.step); i >= 0 && i < len(rows) {
			rows[i] = point.Value
		}
	}
	return rows, nil
}
