package throttle

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/node/advise"
)

const giga = 1e9

// params are those of the tests: a domain carries 100 GB/s.
func params() Params {
	return Params{Carries: 100 * giga, High: 0.9, Low: 0.8, Most: 40, Least: 10, Step: DefaultStep, Hold: time.Minute, Stale: DefaultStale}
}

// parse reads "95/40": 95 GB/s, 40 of which are reclaimed pods'; "?" is not known.
func parse(t *testing.T, id int, text string) Domain {
	t.Helper()
	total, reclaimed, _ := strings.Cut(text, "/")
	number := func(text string) advise.Sample {
		if text == "?" || text == "" {
			return advise.Sample{}
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return advise.Known(x * giga)
	}
	return Domain{id, number(total), number(reclaimed)}
}

// TestTranscript runs testdata/stories. A line of input is one reading, ten seconds after the one before: what each domain has moved. "x6" after it has the same six times. Output has a line for each
// change.
func TestTranscript(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		p, now, state := params(), time.Duration(0), State{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.HasArg("most") {
				d.ScanArgs(t, "most", &p.Most)
			}
			if d.HasArg("least") {
				d.ScanArgs(t, "least", &p.Least)
			}
			var out strings.Builder
			before := ""
			for line := range strings.Lines(d.Input) {
				domains, times := reading(t, line)
				for range times {
					now += 10 * time.Second
					o := Observation{At: now, Fixed: d.HasArg("fixed"), Domains: domains}
					var decision Decision
					decision, state = Step(&o, &p, state)
					if text := render(&decision, o.Fixed); text != before {
						fmt.Fprintf(&out, "%4.0fs %s\n", now.Seconds(), text)
						before = text
					}
				}
			}
			return out.String()
		})
	})
}

// reading is a line's domains, and how often they are read.
func reading(t *testing.T, line string) (domains []Domain, times int) {
	t.Helper()
	fields, times := strings.Fields(line), 1
	if last, ok := strings.CutPrefix(fields[len(fields)-1], "x"); ok {
		times, _ = strconv.Atoi(last)
		fields = fields[:len(fields)-1]
	}
	for id, text := range fields {
		if text != "-" {
			domains = append(domains, parse(t, id, text))
		}
	}
	return domains, times
}

func render(d *Decision, fixed bool) string {
	var parts []string
	for _, s := range d.Domains {
		text := fmt.Sprintf("%d: %d %% %s", s.Domain, s.Percent, s.Kind)
		if fixed {
			text = fmt.Sprintf("%d: %s", s.Domain, s.Kind)
		}
		parts = append(parts, text)
	}
	if d.HoldGrowth {
		parts = append(parts, "growth is held")
	}
	return strings.Join(parts, "; ")
}
