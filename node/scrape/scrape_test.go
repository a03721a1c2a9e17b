package scrape

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// serve answers with what body says, and returns a target there.
func serve(t *testing.T, answer http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return Target{Pod: "u", Address: u.Hostname(), Metric: spec.ProfileMetric{Port: port, Name: "m"}}
}

func text200(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func local(change func(*Params)) *Scraper {
	p := Defaults()
	p.Timeout, p.Round = 5*time.Second, 20*time.Second
	if change != nil {
		change(&p)
	}
	s := New(p)
	s.anywhere = true
	return s
}

// One scrape of a gauge or a summary: the greatest of the series that have the labels, or why there is none.
func TestValues(t *testing.T) {
	const summary = "# TYPE m summary\nm{quantile=\"0.5\"} 1\nm{quantile=\"0.99\"} 7\nm_sum 3\nm_count 4\n"
	get := map[string]string{"verb": "GET"}
	for _, c := range []struct {
		name, body string
		labels     map[string]string
		quantile   float64
		want       string
	}{
		{"a gauge", "# HELP m it\n# TYPE m gauge\nm 3.5\n", nil, 0, "Read 3.5"},
		{"without a type", "m 3\n", nil, 0, "Read 3"},
		{"without a last line end", "m 3", nil, 0, "Read 3"},
		{"other metrics", "mm 1\nm_total 2\nm_bucket 4\nm 3\nn 4\n", nil, 0, "Read 3"},
		{"the greatest", "m{a=\"1\"} 3\nm{a=\"2\"} 9\nm{a=\"3\"} -1\n", nil, 0, "Read 9"},
		{"by label", "m{verb=\"GET\",code=\"200\"} 3\nm{verb=\"PUT\"} 9\nm 10\n", get, 0, "Read 3"},
		{"no such label", "m{verb=\"PUT\"} 9\n", get, 0, "Absent 0"},
		{"with a time", "m{verb=\"GET\"} 3 1700000000000\n", get, 0, "Read 3"},
		{"OpenMetrics", "# TYPE m gauge\n# UNIT m seconds\nm{verb=\"GET\"} 3 1.7e9 # {trace=\"x y\"} 9\n# EOF\n", get, 0, "Read 3"},
		{"braces in a label", "m{verb=\"G}\\\" ET\"} 3 4\n", map[string]string{"verb": "G}\" ET"}, 0, "Read 3"},
		{"a counter says nothing of now", "# TYPE m counter\nm 3\n", nil, 0, "Malformed 0"},
		{"no number", "m{verb=\"GET\"} fast\n", nil, 0, "Malformed 0"},
		{"not a number", "m NaN\n", nil, 0, "Malformed 0"},
		{"infinite", "m +Inf\n", nil, 0, "Absent 0"},
		{"labels without an end", "m{verb=\"GET\n", nil, 0, "TooLarge 0"},
		{"nothing", "", nil, 0, "Absent 0"},
		{"a page", "<html>m</html>", nil, 0, "Absent 0"},
		{"a summary", summary, nil, 0.99, "Read 7"},
		{"a quantile that the summary lacks", summary, nil, 0.9, "Absent 0"},
		{"a summary that has seen nothing", "m{quantile=\"0.99\"} NaN\nm_count 0\n", nil, 0.99, "Absent 0"},
		{"a gauge with a quantile", "# TYPE m gauge\nm 3\n", nil, 0.99, "Absent 0"},
	} {
		target := serve(t, text200(c.body))
		target.Metric.Labels, target.Metric.Quantile = c.labels, c.quantile
		got := local(nil).Scrape(t.Context(), []Target{target})[0]
		if s := fmt.Sprintf("%s %v", got.Outcome, got.Value); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if (got.Outcome == Read) != !got.At.IsZero() {
			t.Errorf("%s: read at %v", c.name, got.At)
		}
	}
}

// histogramPage is a page with what a histogram with the bounds 1, 2 and 4 has seen, in two series.
func histogramPage(counts [4]int) string {
	var b strings.Builder
	for _, verb := range []string{"GET", "PUT"} {
		sum := 0
		for i, bound := range []string{"1", "2", "4", "+Inf"} {
			sum += counts[i]
			fmt.Fprintf(&b, "m_bucket{verb=%q,le=%q} %d # {trace=\"a\"} 0.5\n", verb, bound, sum)
		}
		fmt.Fprintf(&b, "m_sum{verb=%q} 9\nm_count{verb=%q} %d\n", verb, verb, sum)
	}
	return b.String()
}

// A quantile is of what has come since the last scrape, once there is enough of it, and never across a restart.
func TestQuantiles(t *testing.T) {
	h, now := history{}, time.Unix(1000, 0)
	p := Defaults()
	m := spec.ProfileMetric{Name: "m", Quantile: 0.5}
	for _, c := range []struct {
		name   string
		after  time.Duration
		counts [4]int // of each of the two series
		want   string
	}{
		{"the first", 0, [4]int{1000, 0, 0, 0}, "First 0"},
		{"as many again, in the second bucket", 5 * time.Second, [4]int{1000, 10, 0, 0}, "Read 1.5"},
		{"too few: what was known stands", 5 * time.Second, [4]int{1000, 11, 0, 0}, "Read 1.5"},
		{"together with more it is enough", 5 * time.Second, [4]int{1000, 11, 9, 0}, "Read 2.888888888888889"},
		{"beyond the last bound", 5 * time.Second, [4]int{1000, 11, 9, 50}, "Read 4"},
		{"nobody came, for a while", 50 * time.Second, [4]int{1000, 11, 9, 50}, "Read 4"},
		{"and for longer", 20 * time.Second, [4]int{1000, 11, 9, 50}, "Few 0"},
		{"one came", 5 * time.Second, [4]int{1001, 11, 9, 50}, "Few 0"},
		{"in a minute that is enough", 56 * time.Second, [4]int{1001, 11, 9, 50}, "Read 0.5"},
		{"it has begun anew", 5 * time.Second, [4]int{50, 0, 0, 0}, "Reset 0"},
		{"too few since", 5 * time.Second, [4]int{51, 0, 0, 0}, "Few 0"},
		{"enough", 5 * time.Second, [4]int{100, 0, 0, 0}, "Read 0.5"},
	} {
		now = now.Add(c.after)
		texts, err := filter(strings.NewReader(histogramPage(c.counts)), []*spec.ProfileMetric{&m}, &p)
		if err != nil {
			t.Fatal(err)
		}
		s, outcome := texts[0].read(&m)
		if outcome != Read {
			t.Fatalf("%s: %s", c.name, outcome)
		}
		got := h.see(now, s, m.Quantile, &p)
		if s := fmt.Sprintf("%s %v", got.Outcome, got.Value); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// Histograms that cannot be added up are not.
func TestOddHistograms(t *testing.T) {
	for name, body := range map[string]string{
		"other buckets":        "m_bucket{a=\"1\",le=\"1\"} 1\nm_bucket{a=\"1\",le=\"+Inf\"} 1\nm_bucket{a=\"2\",le=\"2\"} 1\nm_bucket{a=\"2\",le=\"+Inf\"} 1\n",
		"it falls":             "m_bucket{le=\"1\"} 3\nm_bucket{le=\"+Inf\"} 1\n",
		"not in order":         "m_bucket{le=\"2\"} 1\nm_bucket{le=\"1\"} 1\nm_bucket{le=\"+Inf\"} 1\n",
		"a bound that is none": "m_bucket{le=\"x\"} 1\n",
	} {
		target := serve(t, text200(body))
		target.Metric.Quantile = 0.9
		if got := local(nil).Scrape(t.Context(), []Target{target})[0]; got.Outcome != Malformed {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Whatever a pod does, the answer is bounded and says what became of it.
func TestBounds(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		fmt.Fprint(w, "m 1\n")
	})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Outcome
	}{
		{"long", text200(strings.Repeat("# HELP n it\n", 1000) + "m 1\n"), TooLarge},
		{"a long line of another metric", text200("n{a=\"" + strings.Repeat("x", 3000) + "\"} 1\nm 1\n"), Read},
		{"a long line", text200("m{a=\"" + strings.Repeat("x", 3000) + "\"} 1\n"), TooLarge},
		{"many lines", text200(strings.Repeat("m 1\n", 500)), TooLarge},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "m 1", http.StatusInternalServerError) }, BadStatus},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, fmt.Sprintf("http://%s:%d/metrics", other.Address, other.Metric.Port), http.StatusFound)
		}, BadStatus},
		{"it breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "m 1\n")
		}, Unreachable},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}, Unreachable},
		{"no end", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "m 1\n")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}, Unreachable},
	} {
		s := local(func(p *Params) {
			p.MaxBody, p.MaxLine, p.MaxKept, p.Timeout = 8<<10, 2<<10, 1<<10, 2*time.Second
		})
		target := serve(t, c.answer)
		if got := s.Scrape(t.Context(), []Target{target})[0]; got.Outcome != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		if n := s.Counts()[c.want]; n != 1 {
			t.Errorf("%s: counted %v", c.name, s.Counts())
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// Only addresses that can be a pod's of its own are asked.
func TestAddresses(t *testing.T) {
	p := Defaults()
	p.Refuse = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	s := New(p)
	for address, want := range map[string]bool{
		"10.1.2.3": true, "fd00::1": true, "192.0.2.2": true, "192.0.2.1": false, "::ffff:192.0.2.1": false, "127.0.0.1": false, "::1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "0.0.0.0": false, "224.0.0.1": false, "": false, "localhost": false, "10.1.2.3:80": false,
		"::ffff:127.0.0.1": false,
	} {
		if got := s.allowed(address); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
	if got := s.Scrape(t.Context(), []Target{{Address: "127.0.0.1", Metric: spec.ProfileMetric{Port: 1, Name: "m"}}})[0]; got.Outcome != BadAddress {
		t.Errorf("%+v", got)
	}
}

// A page is asked for once for all that is on it, no more at once than may be, and what is not asked for any more is forgotten.
func TestRounds(t *testing.T) {
	var asked, now, most atomic.Int32
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(10 * time.Millisecond)
		fmt.Fprintf(w, "a 1\nb 2\n%s", histogramPage([4]int{int(100 * asked.Add(1)), 0, 0, 0}))
	})
	of := func(name, path string, quantile float64) Target {
		out := target
		out.Metric.Name, out.Metric.Path, out.Metric.Quantile = name, path, quantile
		return out
	}
	s := local(func(p *Params) { p.Concurrency, p.MaxTargets = 2, 11 })
	targets := []Target{of("a", "", 0), of("b", "", 0), of("m", "", 0.5)}
	outcomes := func(r []Result) (out []Outcome) {
		for _, x := range r {
			out = append(out, x.Outcome)
		}
		return out
	}
	if got := outcomes(s.Scrape(t.Context(), targets)); !slices.Equal(got, []Outcome{Read, Read, First}) || asked.Load() != 1 {
		t.Errorf("%v after %d requests", got, asked.Load())
	}
	for i := range 9 {
		targets = append(targets, of("a", fmt.Sprint("/", i), 0))
	}
	got := outcomes(s.Scrape(t.Context(), targets))
	if got[2] != Read || got[10] != Read || got[11] != LeftOut || asked.Load() != 10 || most.Load() > 2 {
		t.Errorf("%v after %d requests, %d at once", got, asked.Load(), most.Load())
	}
	if s.Scrape(t.Context(), targets[:1]); len(s.before) != 1 {
		t.Errorf("it remembers %d targets", len(s.before))
	}
	if got := outcomes(s.Scrape(t.Context(), targets[:3])); got[2] != First {
		t.Errorf("%v", got)
	}
}

// A round ends in time though nobody answers.
func TestRoundEnds(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	var targets []Target
	for i := range 20 {
		next := target
		next.Metric.Path = fmt.Sprint("/", i)
		targets = append(targets, next)
	}
	s := local(func(p *Params) { p.Concurrency, p.Timeout, p.Round = 2, time.Hour, 100*time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range s.Scrape(ctx, targets) {
		if r.Outcome != Unreachable {
			t.Errorf("%+v", r)
		}
	}
	if ctx.Err() != nil {
		t.Error("the round did not end by itself")
	}
}

func TestRun(t *testing.T) {
	target := serve(t, text200("m 3\n"))
	s := local(func(p *Params) { p.Interval = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	s.Run(ctx, func() []Target { return []Target{target} }, func(targets []Target, results []Result) {
		if len(targets) != 1 || results[0].Value != 3 {
			t.Errorf("%+v", results)
		}
		if rounds++; rounds == 3 {
			cancel()
		}
	})
	if rounds != 3 {
		t.Errorf("%d rounds", rounds)
	}
}

// A quantile lies within the bounds of its bucket, and grows with what is asked for.
func TestPropertyQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds, counts, last := []float64{}, []float64{}, 0.0
		for i := range rapid.IntRange(1, 6).Draw(t, "buckets") {
			bounds = append(bounds, float64(i+1))
			last += float64(rapid.IntRange(0, 5).Draw(t, "count"))
			counts = append(counts, last)
		}
		bounds, counts = append(bounds, math.Inf(1)), append(counts, last+float64(rapid.IntRange(1, 5).Draw(t, "beyond")))
		before := 0.0
		for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99} {
			v := quantileOf(bounds, counts, q)
			if math.IsNaN(v) || v < before || v > bounds[len(bounds)-2] {
				t.Fatalf("quantile %v of %v %v is %v, after %v", q, bounds, counts, v, before)
			}
			before = v
		}
	})
}

// FuzzPage reads whatever a pod may answer.
func FuzzPage(f *testing.F) {
	f.Add("m 1\n", 0.0)
	f.Add(histogramPage([4]int{1, 2, 3, 4}), 0.9)
	f.Add("m{a=\"\\\"} 1\n# TYPE m summary\nm{quantile=\"0.9\"} 3\n", 0.9)
	for _, hostile := range []string{
		"m{a=\"b\\\"\"} NaN\n", "m_bucket{le=\"1\",le=\"2\"} 1\n", "m {", "m{\"x\"} 1\n", "m 1 # {a=\"b\"} 2\n", "m{__name__=\"x\"} 1\n", "m{a=\"\xff\"} 1\n",
	} {
		f.Add(hostile, 0.0)
		f.Add(hostile, 0.5)
	}
	f.Fuzz(func(t *testing.T, body string, quantile float64) {
		m, p := spec.ProfileMetric{Name: "m", Quantile: quantile}, Defaults()
		texts, err := filter(strings.NewReader(body), []*spec.ProfileMetric{&m}, &p)
		if err != nil {
			return
		}
		s, outcome := texts[0].read(&m)
		if (s != nil) != (outcome == Read) {
			t.Fatalf("%+v %s", s, outcome)
		}
		if s == nil {
			return
		}
		var h history
		for i := range 3 {
			r := h.see(time.Unix(int64(100*i), 0), s, quantile, &p)
			if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
				t.Fatalf("%+v", r)
			}
		}
	})
}
