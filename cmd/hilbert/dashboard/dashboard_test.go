package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
	"hilbert.dev/hilbert/topology"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const gib = int64(1) << 30

// state is a cluster of some nodes with 8 CPUs. The first lends, and has a reclaimed pod that it wants evicted; the second has GPUs. One pod fits nowhere.
func state(t testing.TB, nodes int) *inspect.Dump {
	t.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		n := &facts.Node{Name: fmt.Sprintf("n%d", i), Unschedulable: i == 2, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 8000}, {Name: resource.NameMemory, Amount: 32 * gib}, {Name: resource.NamePods, Amount: 110},
		}}
		if i == 1 {
			n.GPU = topology.Shape{GPUs: 2, Model: "A100", Shareable: true}
		}
		s.Apply(facts.NodeUpserted{Node: n}, noon)
	}
	s.Apply(facts.NodeReported{Node: "n0", Report: &facts.NodeReport{
		Headroom:  facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 4000, Memory: 8 * gib},
		Usage:     facts.Usage{MilliCPU: 1500, Memory: 2 * gib, Since: 1},
		Evictions: []facts.EvictionRequest{{UID: "batch", Namespace: "ml", Name: "batch", Reason: "MemoryPressure", Message: "7 % of memory is left"}},
	}}, noon)
	pod := func(namespace, name, node string, r *facts.Requirements, labels ...facts.Label) {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: namespace, Name: name, Ours: true, Node: node, Requirements: r, Labels: labels, Created: noon.Add(-time.Hour).UnixNano(),
		}}, noon)
	}
	asks := func(cpu, memory int64) []resource.Quantity {
		return []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: memory}}
	}
	pod("web", "web-0", "n0", &facts.Requirements{Requests: asks(2000, 4*gib)})
	pod("ml", "batch", "n0", &facts.Requirements{Reclaimed: true, Requests: []resource.Quantity{
		{Name: spec.ResourceReclaimedCPU, Amount: 3000}, {Name: spec.ResourceReclaimedMemory, Amount: 2 * gib},
	}}, facts.Label{Key: spec.LabelQoS, Value: string(spec.QoSReclaimed)})
	pod("ml", "gpu", "n1", &facts.Requirements{Requests: asks(1000, gib), GPU: topology.Request{Whole: 1}})
	pod("web", "huge", "", &facts.Requirements{Requests: asks(64_000, gib)})
	s.Step(noon, 100)
	return dumptest.RoundTrip(t.(dumptest.T), inspect.Take(s, "hilbert", noon))
}

// fake is a Source whose state can change and fail.
type fake struct {
	Source

	dump *inspect.Dump
	err  error
}

func (f *fake) State(context.Context) (*inspect.Dump, error) { return f.dump, f.err }

// serve starts a Server that has asked once. get gets a page as somebody who has the token.
func serve(t *testing.T, d *inspect.Dump) (s *Server, f *fake, get func(path string) (int, string)) {
	t.Helper()
	f = &fake{Source: File("a file", d), dump: d}
	s = New(f, Options{Now: func() time.Time { return noon.Add(3 * time.Second) }})
	s.Ask(t.Context())
	return s, f, func(path string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
		r.AddCookie(&http.Cookie{Name: s.cookie(), Value: s.token})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
}

func TestSums(t *testing.T) {
	c, err := Read(state(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	want := Totals{
		All: Amounts{24_000, 96 * gib, 2000}, Requested: Amounts{3000, 5 * gib, 1000}, Offered: Amounts{MilliCPU: 4000, Memory: 8 * gib},
		Lent: Amounts{MilliCPU: 3000, Memory: 2 * gib}, Used: Amounts{MilliCPU: 1500, Memory: 2 * gib}, UsedOf: Amounts{8000, 32 * gib, 0},
		UsedKnown: 1, Nodes: 3, Pods: 3,
	}
	if c.Totals != want {
		t.Errorf("sums are\n%+v, want\n%+v", c.Totals, want)
	}
	levels := map[string]int{}
	for _, l := range c.Levels {
		levels[l.Name] = l.Pods
	}
	if levels["shared_cores"] != 2 || levels["reclaimed_cores"] != 1 || levels["dedicated_cores"] != 0 {
		t.Errorf("levels are %v", levels)
	}
	if len(c.Waiting) != 1 || c.Waiting[0].Name != "huge" || c.Counts[inspect.WaitingUnschedulable] != 1 {
		t.Errorf("waiting are %+v, %v", c.Waiting, c.Counts)
	}
	if list := c.Evictions(); len(list) != 1 || list[0].Node != "n0" || list[0].Name != "batch" {
		t.Errorf("evictions are %+v", list)
	}
}

// TestPages holds what each page must say.
func TestPages(t *testing.T) {
	_, _, get := serve(t, state(t, 3))
	for path, want := range map[string][]string{
		"/":                      {"<dt>nodes</dt><dd>3</dd>", "19 %", "12 %", `href="/waiting?state=unschedulable"`, "known of 1 of 3 nodes", "reclaimed_cores"},
		"/nodes":                 {`href="/nodes/n0"`, "n0: 25 %", "s2 evicting", "cordoned"},
		"/nodes?by=used":         {"n0: 19 %", "n1: not known"},
		"/nodes?by=gpu&q=n1":     {"n1: 50 %"},
		"/nodes/n0":              {"Node n0", "headroom is open", "/pods/web/web-0", "/pods/ml/batch", "7 % of memory is left"},
		"/queues":                {"No queue is configured"},
		"/waiting":               {"web/huge", "unschedulable", "1h00m"},
		"/waiting?state=backoff": {"Nobody waits in this state"},
		"/evictions":             {"MemoryPressure"},
		"/pods/web/huge":         {"hilbert explain pod web/huge", "cpu"},
		"/pods/web/web-0":        {"is bound to"},
		"/static/style.css":      {"prefers-color-scheme:dark"},
		"/static/live.js":        {"EventSource"},
	} {
		code, body := get(path)
		if code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, code, body)
		}
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q:\n%s", path, text, body)
			}
		}
	}
	if _, body := get("/nodes?q=n1"); strings.Contains(body, "/nodes/n0") {
		t.Error("a name that does not match is listed")
	}
	for _, path := range []string{"/nodes/none", "/pods/web/none", "/units/web/none", "/elsewhere"} {
		if code, _ := get(path); code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, code)
		}
	}
}

// TestNothingIsLoadedFromElsewhere: pages name no other server, and have neither scripts nor styles in them, which their policy would not run.
func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	_, _, get := serve(t, state(t, 3))
	forbidden := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]|<style|\sstyle=|\son[a-z]+=|<script>|javascript:`)
	for _, path := range []string{"/", "/nodes", "/nodes/n0", "/queues", "/waiting", "/evictions", "/pods/web/huge"} {
		_, body := get(path)
		if found := forbidden.FindString(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

// TestNamesAreEscaped: what tenants name cannot become a part of a page.
func TestNamesAreEscaped(t *testing.T) {
	d := state(t, 1)
	const evil = `"><script>alert(1)</script>`
	d.Ledger.Nodes[0].Name = evil
	for i := range d.Ledger.Reports {
		d.Ledger.Reports[i].Node = evil
	}
	for i := range d.Ledger.Pods {
		if d.Ledger.Pods[i].Facts.Node != "" {
			d.Ledger.Pods[i].Facts.Node = evil
		}
		d.Ledger.Pods[i].Facts.Name = evil
	}
	_, _, get := serve(t, d)
	for _, path := range []string{"/", "/nodes", "/waiting", "/evictions"} {
		if code, body := get(path); code != http.StatusOK || strings.Contains(body, "<script>") {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
}

func TestOnlyWhoHasTheTokenGetsIn(t *testing.T) {
	s, _, _ := serve(t, state(t, 1))
	ask := func(url, given string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if given != "" {
			r.AddCookie(&http.Cookie{Name: s.cookie(), Value: given})
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no token":        ask("http://127.0.0.1:1/", ""),
		"a wrong token":   ask("http://127.0.0.1:1/?token=00", ""),
		"a wrong cookie":  ask("http://127.0.0.1:1/", "00"),
		"the style sheet": ask("http://127.0.0.1:1/static/style.css", ""),
		"the stream":      ask("http://127.0.0.1:1/events", ""),
		"another host":    ask("http://evil.example/", s.token),
	} {
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", name, w.Code)
		}
	}
	first := ask(s.Address("localhost:1"), "")
	if first.Code != http.StatusSeeOther || first.Header().Get("Location") != "/" {
		t.Fatalf("the address answers %d to %q", first.Code, first.Header().Get("Location"))
	}
	set := first.Result().Cookies()
	if len(set) != 1 || !set[0].HttpOnly || set[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies are %v", set)
	}
	if other, _, _ := serve(t, state(t, 1)); other.cookie() == set[0].Name {
		t.Error("a second server on this machine would take the first one's cookie away")
	}
	w := ask("http://[::1]:1/", set[0].Value)
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("with the cookie: status %d, policy %q", w.Code, w.Header().Get("Content-Security-Policy"))
	}
}

// TestAFailureIsSaid: pages show the last good state, and that there is no newer one.
func TestAFailureIsSaid(t *testing.T) {
	s, f, get := serve(t, state(t, 2))
	f.err = errors.New("the leader does not answer")
	s.Ask(t.Context())
	if _, body := get("/"); !strings.Contains(body, "the leader does not answer") || !strings.Contains(body, "<dt>nodes</dt><dd>2</dd>") || !strings.Contains(body, "3s old") {
		t.Errorf("the page is\n%s", body)
	}
	f.err = nil
	s.Ask(t.Context())
	if _, body := get("/"); strings.Contains(body, "does not answer") {
		t.Error("the failure is told of though there is a newer state")
	}
}

// TestWithoutTheState: who may not get the cluster's state is told so, and still gets the pages of pods, which want another right.
func TestWithoutTheState(t *testing.T) {
	s, f, get := serve(t, state(t, 2))
	s.cluster, s.history, f.err = nil, nil, errors.New("snapshots are forbidden")
	s.Ask(t.Context())
	for path, want := range map[string]string{"/": "forbidden", "/nodes": "forbidden", "/pods/web/huge": "n0 lacks"} {
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, without %q:\n%s", path, code, want, body)
		}
	}
}

// TestTheHistoryIsBounded: it keeps the last samples, has none twice, and draws gaps where use was not known.
func TestTheHistoryIsBounded(t *testing.T) {
	var h history
	c := &Cluster{Totals: Totals{All: Amounts{MilliCPU: 1000}, Requested: Amounts{MilliCPU: 500}}}
	for i := range maxSamples + 10 {
		c.Taken = noon.Add(time.Duration(i) * time.Second)
		h = h.add(c)
		h = h.add(c)
	}
	if len(h) != maxSamples || !h[0].At.Equal(noon.Add(10*time.Second)) || h[0].Requested != 0.5 || h[0].UsedKnown {
		t.Errorf("%d samples, the first %+v", len(h), h[0])
	}
	for i := range h {
		h[i].UsedKnown = i%4 < 2
	}
	if picture := string(drawHistory(h[:8])); strings.Count(picture, `class="line used"`) != 2 {
		t.Errorf("want a gap in the line:\n%s", picture)
	}
}

// TestNewsReachBrowsers: each state is told to all that wait, no more than so many may wait, and a place comes back.
func TestNewsReachBrowsers(t *testing.T) {
	s, _, _ := serve(t, state(t, 1))
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	open := func() (*http.Response, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: s.cookie(), Value: s.token})
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer, cancel
	}
	var bodies []io.ReadCloser
	var cancels []context.CancelFunc
	for range maxStreams {
		answer, cancel := open()
		bodies, cancels = append(bodies, answer.Body), append(cancels, cancel)
	}
	if answer, cancel := open(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one stream too many has status %d", answer.StatusCode)
	} else {
		_ = answer.Body.Close()
		cancel()
	}
	s.Ask(t.Context())
	for _, body := range bodies {
		read, buffer := "", make([]byte, 256)
		for !strings.Contains(read, "event: news") {
			n, err := body.Read(buffer)
			if err != nil {
				t.Fatalf("%q, then %v", read, err)
			}
			read += string(buffer[:n])
		}
	}
	cancels[0]()
	for { // the server notices that the browser has gone
		s.mu.Lock()
		n := s.streams
		s.mu.Unlock()
		if n < maxStreams {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for i := range bodies {
		cancels[i]()
		_ = bodies[i].Close()
	}
}

// BenchmarkNodes draws the map of 20,000 nodes.
func BenchmarkNodes(b *testing.B) {
	c, err := Read(state(b, 20_000))
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/nodes", nil)
	for b.Loop() {
		shown, err := showNodes(r, nil, c)
		if err != nil {
			b.Fatal(err)
		}
		v := &view{Page: pages[1], Cluster: c, Now: noon, Path: "/nodes", Shown: shown}
		if err := v.write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead makes what the pages show of 20,000 nodes.
func BenchmarkRead(b *testing.B) {
	d := state(b, 20_000)
	for b.Loop() {
		if _, err := Read(d); err != nil {
			b.Fatal(err)
		}
	}
}
