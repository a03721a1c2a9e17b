package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Params bound a Scraper.
type Params struct {
	// Interval is the time from one round to the next.
	Interval time.Duration
	// Timeout bounds the wait for one address, Round that for all of them, Concurrency how many are asked at once.
	Timeout     time.Duration
	Round       time.Duration
	Concurrency int
	// MaxTargets of a round are read; the others are unknown.
	MaxTargets int
	// MaxBody bounds an answer, MaxLine a line of it that is wanted, MaxKept all such lines of one metric, in bytes.
	MaxBody int64
	MaxLine int
	MaxKept int
	// A quantile is of at least MinSamples, or else of all that came in Window, if anything did.
	MinSamples float64
	Window     time.Duration
	// Refuse are addresses that are not asked: the node's own.
	Refuse []netip.Addr
}

// Defaults are the bounds for a node with some dozens of pods that have a profile.
func Defaults() Params {
	return Params{
		Interval: 5 * time.Second, Timeout: time.Second, Round: 4 * time.Second, Concurrency: 16, MaxTargets: 512,
		MaxBody: 4 << 20, MaxLine: 16 << 10, MaxKept: 256 << 10, MinSamples: 20, Window: time.Minute,
	}
}

// Target is a number of a pod.
type Target struct {
	// Pod is its UID, Indicator the caller's number of the metric; Address is the pod's IP.
	Pod       string
	Indicator int
	Address   string
	Metric    spec.ProfileMetric
}

// Outcome says what became of a target. Outcomes are few and stable: they label a metric.
type Outcome string

// The outcomes. Only with the first is there a value.
const (
	Read        Outcome = "Read"
	BadAddress  Outcome = "BadAddress"  // no address, or one that cannot be a pod's
	Unreachable Outcome = "Unreachable" // no answer in time
	BadStatus   Outcome = "BadStatus"   // the answer was not 200; redirects are not followed
	TooLarge    Outcome = "TooLarge"    // the answer is longer than is read
	Malformed   Outcome = "Malformed"   // the metric cannot be read
	Absent      Outcome = "Absent"      // there is no such metric
	First       Outcome = "First"       // of a histogram: there is nothing yet to compare with
	Reset       Outcome = "Reset"       // of a histogram: it has begun anew
	Few         Outcome = "Few"         // of a histogram: it has seen too little since
	LeftOut     Outcome = "LeftOut"     // too many targets
)

// Result is what is known of a target.
type Result struct {
	Outcome Outcome
	// Value is known with the outcome Read; At is when it was read.
	Value float64
	At    time.Time
}

// Scraper asks pods. Scrape is called by one goroutine at a time, Counts by any.
type Scraper struct {
	params Params
	client *http.Client
	// anywhere: loopback counts as a pod's address, for tests.
	anywhere bool
	before   map[key]*history
	rounds   int

	mu     sync.Mutex
	counts map[Outcome]uint64
}

// key is a target with a history.
type key struct {
	pod, address, path, name, labels string
	port                             int
	quantile                         float64
}

// New returns a Scraper without readings.
func New(p Params) *Scraper {
	const maxHeader = 16 << 10
	return &Scraper{
		params: p, before: make(map[key]*history), counts: make(map[Outcome]uint64),
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{ // an address may be another pod's next time: no connection is kept
				DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
				DialContext: (&net.Dialer{Timeout: p.Timeout}).DialContext,
			},
		},
	}
}

// Counts is how often each outcome came.
func (s *Scraper) Counts() map[Outcome]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Run scrapes once in an Interval until ctx ends: what wanted names, and hands what came of it over, in the same order.
func (s *Scraper) Run(ctx context.Context, wanted func() []Target, got func([]Target, []Result)) {
	tick := time.NewTicker(s.params.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if targets := wanted(); len(targets) > 0 {
			got(targets, s.Scrape(ctx, targets))
		} else {
			clear(s.before)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// page is what one request gets, and the targets that are on it.
type page struct {
	url     string
	targets []int
}

// Scrape asks for all targets and returns one Result for each. It waits no longer than Params.Round, or until ctx ends.
func (s *Scraper) Scrape(ctx context.Context, targets []Target) []Result {
	ctx, cancel := context.WithTimeout(ctx, s.params.Round)
	defer cancel()
	out := make([]Result, len(targets))
	pages := s.pages(targets, out)
	if n := len(pages); n > 0 { // the last may not be asked in time, so start with another each time
		s.rounds++
		cut := s.rounds % n
		pages = slices.Concat(pages[cut:], pages[:cut])
	}
	found := make([]*series, len(targets))
	queue := make(chan *page)
	var workers sync.WaitGroup
	for range min(max(1, s.params.Concurrency), len(pages)) {
		workers.Go(func() {
			for p := range queue {
				s.ask(ctx, p, targets, found, out)
			}
		})
	}
	for _, p := range pages {
		queue <- p
	}
	close(queue)
	workers.Wait()
	s.conclude(time.Now(), targets, found, out)
	return out
}

// pages groups the targets by what has to be asked, in order, and judges those that are not.
func (s *Scraper) pages(targets []Target, out []Result) []*page {
	byURL := make(map[string]*page)
	var pages []*page
	for i := range targets {
		t := &targets[i]
		switch {
		case i >= s.params.MaxTargets:
			out[i].Outcome = LeftOut
			continue
		case !s.allowed(t.Address):
			out[i].Outcome = BadAddress
			continue
		}
		url := "http://" + net.JoinHostPort(t.Address, strconv.Itoa(t.Metric.Port)) + cmp.Or(t.Metric.Path, "/metrics")
		p := byURL[url]
		if p == nil {
			p = &page{url: url}
			byURL[url], pages = p, append(pages, p)
		}
		p.targets = append(p.targets, i)
	}
	return pages
}

// allowed reports whether an address can be a pod's of its own: those of the node itself would let a profile ask the node's own servers.
func (s *Scraper) allowed(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" || slices.Contains(s.params.Refuse, ip.Unmap()) {
		return false
	}
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() || s.anywhere && ip.IsLoopback()
}

// ask gets a page and reads the series of its targets. Each target is on one page, so that no other goroutine writes there.
func (s *Scraper) ask(ctx context.Context, p *page, targets []Target, found []*series, out []Result) {
	fail := func(o Outcome) {
		for _, i := range p.targets {
			out[i].Outcome = o
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.params.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		fail(BadAddress)
		return
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	request.Header.Set("User-Agent", "hilbert-agent")
	response, err := s.client.Do(request)
	if err != nil {
		fail(Unreachable)
		return
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		fail(BadStatus)
		return
	}
	metrics := make([]*spec.ProfileMetric, len(p.targets))
	for n, i := range p.targets {
		metrics[n] = &targets[i].Metric
	}
	texts, err := filter(response.Body, metrics, &s.params)
	switch {
	case errors.Is(err, errTooLarge):
		fail(TooLarge)
		return
	case err != nil:
		fail(Unreachable) // it broke off
		return
	}
	for n, i := range p.targets {
		found[i], out[i].Outcome = texts[n].read(metrics[n])
	}
}

// conclude works out the values, and keeps what the next round needs.
func (s *Scraper) conclude(now time.Time, targets []Target, found []*series, out []Result) {
	next := make(map[key]*history, len(targets))
	for i := range targets {
		k := keyOf(&targets[i])
		h := s.before[k]
		if h == nil {
			h = new(history)
		}
		if found[i] != nil {
			out[i] = h.see(now, found[i], targets[i].Metric.Quantile, &s.params)
		}
		next[k] = h
	}
	s.before = next
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range out {
		s.counts[out[i].Outcome]++
	}
}

func keyOf(t *Target) key {
	m := &t.Metric
	labels := make([]string, 0, len(m.Labels))
	for name, value := range m.Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(labels)
	return key{t.Pod, t.Address, m.Path, m.Name, fmt.Sprint(labels), m.Port, m.Quantile}
}

// errTooLarge says that an answer is longer than is read.
var errTooLarge = errors.New("the answer is too large")

// bounded is a reader that fails where an answer becomes too large.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
