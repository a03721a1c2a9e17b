package node

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/scrape"
)

const (
	// maxMetricAge is how old what a pod told may be: a quantile of little traffic takes a minute.
	maxMetricAge = 75 * time.Second
	// leastUse is the use of CPU that run delay is at least related to, in CPUs: what hardly runs hardly waits.
	leastUse = 0.01
)

// profiles is what is known of ServiceProfiles, and of what their metrics say.
type profiles struct {
	scraper *scrape.Scraper
	list    []spec.NamedProfile // the loop's

	mu      sync.Mutex
	targets []scrape.Target
	results map[metricKey]scrape.Result
}

// metricKey names a metric by the pod's UID and the place among its profile's indicators.
type metricKey struct {
	uid       string
	indicator int
}

// Profiles says which ServiceProfiles there are, the oldest first. Nobody may change them afterwards.
func (a *Agent) Profiles(list []spec.NamedProfile) {
	a.post(func() {
		a.profiles.list = list
		for _, uid := range sortedKeys(a.pods) {
			a.profile(a.pods[uid])
		}
		a.updateTargets()
	})
}

// profile finds the profile of a pod. That an older one is followed instead of another is told once.
func (a *Agent) profile(p *pod) {
	best, others := spec.MatchProfile(a.profiles.list, p.name.Namespace, p.labels)
	p.profile = best
	conflict := ""
	if len(others) > 0 {
		conflict = fmt.Sprintf("the ServiceProfile %s is followed; %s is younger, and selects the pod too", best, others[0])
	}
	if conflict != "" && conflict != p.conflict {
		a.note(p.name, allocate.Note{Reason: spec.ReasonProfileConflict, Message: conflict})
	}
	p.conflict = conflict
}

// updateTargets says what is to be scraped.
func (a *Agent) updateTargets() {
	var targets []scrape.Target
	for _, uid := range sortedKeys(a.pods) {
		p := a.pods[uid]
		if p.profile == nil {
			continue
		}
		for i := range p.profile.Indicators {
			if m := p.profile.Indicators[i].Metric; m != nil {
				targets = append(targets, scrape.Target{Pod: uid, Indicator: i, Address: p.address, Metric: *m})
			}
		}
	}
	a.profiles.mu.Lock()
	defer a.profiles.mu.Unlock()
	a.profiles.targets = targets
}

// wanted are the targets of the next round. It is called beside the loop, as is scraped.
func (p *profiles) wanted() []scrape.Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.targets) == 0 {
		p.results = nil
	}
	return p.targets
}

func (p *profiles) scraped(targets []scrape.Target, results []scrape.Result) {
	out := make(map[metricKey]scrape.Result, len(targets))
	for i := range targets {
		out[metricKey{targets[i].Pod, targets[i].Indicator}] = results[i]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = out
}

// steer adds what the profile of a service wants to know of its pod.
func (s *sensor) steer(uid string, p *pod, service *advise.Service, use *observe.CgroupUse) {
	if p.profile == nil || service.Pool == "" { // who has cores of his own needs no pool
		return
	}
	service.Profile = p.profile.String()
	s.agent.profiles.mu.Lock()
	defer s.agent.profiles.mu.Unlock()
	for i := range p.profile.Indicators {
		var now advise.Sample
		switch p.profile.Indicators[i].Type {
		case spec.IndicatorRunDelay:
			wait, ran := s.runDelay(p), rateOf(use.CPU.Usage)
			now = advise.Sample{Value: wait.Value / max(ran.Value, leastUse), Known: wait.Known && ran.Known}
		case spec.IndicatorCPUPressure:
			now = pressureOf(use)
		case spec.IndicatorMetric:
			r := s.agent.profiles.results[metricKey{uid, i}]
			now = advise.Sample{Value: r.Value, Known: r.Outcome == scrape.Read && s.out.Wall.Sub(r.At) <= maxMetricAge}
		}
		service.Indicators = append(service.Indicators, now)
	}
	if !slices.ContainsFunc(s.out.Profiles, func(known advise.Profile) bool { return known.Name == service.Profile }) {
		s.out.Profiles = append(s.out.Profiles, advise.ProfileOf(p.profile))
	}
}

// Steered are pods that follow one profile: those of which some indicator is known, and those of which none is, so that they cannot be steered.
type Steered struct{ Known, Silent int }

// steeredBy counts the pods of each profile.
func steeredBy(services []advise.Service) map[string]Steered {
	var out map[string]Steered
	for i := range services {
		s := &services[i]
		if s.Profile == "" {
			continue
		}
		if out == nil {
			out = make(map[string]Steered)
		}
		count := out[s.Profile]
		if slices.ContainsFunc(s.Indicators, func(v advise.Sample) bool { return v.Known }) {
			count.Known++
		} else {
			count.Silent++
		}
		out[s.Profile] = count
	}
	return out
}

// steered lists the pools of the services with a profile: what they have, and what all of their pods ask for.
func (s *sensor) steered() {
	if len(s.out.Profiles) == 0 {
		return
	}
	wanted := make(map[string]bool)
	for i := range s.out.Services {
		if service := &s.out.Services[i]; service.Profile != "" {
			wanted[service.Pool] = true
		}
	}
	const milli = 1000
	pools := s.agent.manager.Pools()
	for _, name := range sortedKeys(wanted) {
		pool := advise.Pool{Name: name, Requests: advise.Known(float64(s.demand[name]) / milli)}
		if i := slices.IndexFunc(pools, func(p allocate.Pool) bool { return p.Name == name }); i >= 0 {
			pool.CPUs = pools[i].CPUs.Len()
		}
		s.out.Pools = append(s.out.Pools, pool)
	}
	slices.SortFunc(s.out.Profiles, func(x, y advise.Profile) int { return cmp.Compare(x.Name, y.Name) })
}
