package scrape

import (
	"bytes"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

func FuzzSecText(f *testing.F) {
	f.Skip("issue 17: Hostile tenants, captured nodes: least privilege that is shown")
	for _, s := range []string{
		"# TYPE m gauge\nm 1\n", "# TYPE m histogram\nm_bucket{le=\"1\"} 1\nm_bucket{le=\"+Inf\"} 2\nm_count 2\nm_sum 3\n",
		"m{a=\"b\\\"\"} NaN\n", "m{quantile=\"0.5\"} 2\nm_count 1\n", "m_bucket{le=\"1\",le=\"2\"} 1\n", "m {", "m{\"x\"} 1\n", "m 1 # {a=\"b\"} 2\n", "m{__name__=\"x\"} 1\n", "m{a=\"\xff\"} 1\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	p := Defaults()
	f.Fuzz(func(t *testing.T, data []byte, q bool) {
		m := &spec.ProfileMetric{Port: 1, Name: "m"}
		if q {
			m.Quantile = 0.5
		}
		texts, err := filter(bytes.NewReader(data), []*spec.ProfileMetric{m}, &p)
		if err != nil {
			return
		}
		for i := range texts {
			s, _ := texts[i].read(m)
			if s != nil {
				var h history
				h.see(now0, s, m.Quantile, &p)
				h.see(now0, s, m.Quantile, &p)
			}
		}
	})
}

var now0 = time.Unix(1e9, 0)
