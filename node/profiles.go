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
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/scrape"
)

const (
	// maxMetricAge is how old what a pod told may be: a quantile of little traffic takes a minute.
	maxMetricAge = 75 * time.Second
	// leastUse is the use of CPU that run delay is at least related to, in CPUs: what hardly runs hardly waits.
	leastUse = 0.01
)

// profileController finds the ServiceProfile of each pod, and has the metrics scraped that profiles want. The laws steer the pools of such pods by them.
type profileController struct {
	node    *nodeState
	scraper *scrape.Scraper
	list    []spec.NamedProfile // the oldest first

	mu      sync.Mutex
	targets []scrape.Target
	results map[metricKey]scrape.Result
}

// metricKey names a metric by the pod's UID and the place among its profile's indicators.
type metricKey struct {
	uid       string
	indicator int
}

// set says which profiles there are, and matches all pods anew.
func (c *profileController) set(list []spec.NamedProfile) {
	c.list = list
	for _, p := range c.node.Pods.Sorted() {
		c.match(p)
	}
	c.updateTargets()
}

// match finds the profile of a pod. That an older one is followed instead of another is told once.
func (c *profileController) match(p *pods.Pod) {
	best, others := spec.MatchProfile(c.list, p.Ref.Namespace, p.Labels)
	p.Profile = best
	conflict := ""
	if len(others) > 0 {
		conflict = fmt.Sprintf("the ServiceProfile %s is followed; %s is younger, and selects the pod too", best, others[0])
	}
	if conflict != "" && conflict != p.Conflict {
		c.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonProfileConflict, Message: conflict})
	}
	p.Conflict = conflict
}

// Tick implements controller: pods may have come and gone, and with them what is to be scraped.
func (c *profileController) Tick(*inputs) (changed bool) {
	c.updateTargets()
	return false
}

func (c *profileController) updateTargets() {
	var targets []scrape.Target
	for _, p := range c.node.Pods.Sorted() {
		if p.Profile == nil {
			continue
		}
		for i := range p.Profile.Indicators {
			if m := p.Profile.Indicators[i].Metric; m != nil {
				targets = append(targets, scrape.Target{Pod: p.Ref.UID, Indicator: i, Address: p.Address, Metric: *m})
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = targets
}

// wanted are the targets of the next round. It is called beside the loop, as is scraped.
func (c *profileController) wanted() []scrape.Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.targets) == 0 {
		c.results = nil
	}
	return c.targets
}

func (c *profileController) scraped(targets []scrape.Target, results []scrape.Result) {
	out := make(map[metricKey]scrape.Result, len(targets))
	for i := range targets {
		out[metricKey{targets[i].Pod, targets[i].Indicator}] = results[i]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = out
}

// addIndicators adds what the profile of a service wants to know of its pod.
func (c *profileController) addIndicators(o *observation, p *pods.Pod, service *advise.Service, use *observe.CgroupUse) {
	if p.Profile == nil || service.Pool == "" { // a pod with cores of its own needs no pool
		return
	}
	service.Profile = p.Profile.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.Profile.Indicators {
		var now advise.Sample
		switch p.Profile.Indicators[i].Type {
		case spec.IndicatorRunDelay:
			wait, ran := o.runDelay(p), rateOf(use.CPU.Usage)
			now = advise.Sample{Value: wait.Value / max(ran.Value, leastUse), Known: wait.Known && ran.Known}
		case spec.IndicatorCPUPressure:
			now = o.pressureOf(p)
		case spec.IndicatorMetric:
			r := c.results[metricKey{p.Ref.UID, i}]
			now = advise.Sample{Value: r.Value, Known: r.Outcome == scrape.Read && o.laws.Wall.Sub(r.At) <= maxMetricAge}
		}
		service.Indicators = append(service.Indicators, now)
	}
	if !slices.ContainsFunc(o.laws.Profiles, func(known advise.Profile) bool { return known.Name == service.Profile }) {
		o.laws.Profiles = append(o.laws.Profiles, advise.ProfileOf(p.Profile))
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

// addPools lists the pools of the services with a profile: what they have, and what all of their pods ask for.
func (c *profileController) addPools(o *observation) {
	if len(o.laws.Profiles) == 0 {
		return
	}
	wanted := make(map[string]bool)
	for i := range o.laws.Services {
		if service := &o.laws.Services[i]; service.Profile != "" {
			wanted[service.Pool] = true
		}
	}
	const milli = 1000
	pools := c.node.Manager.Pools.List()
	for _, name := range sortedKeys(wanted) {
		pool := advise.Pool{Name: name, Requests: advise.Known(float64(o.demand[name]) / milli)}
		if i := slices.IndexFunc(pools, func(p allocate.Pool) bool { return p.Name == name }); i >= 0 {
			pool.CPUs = pools[i].CPUs.Len()
		}
		o.laws.Pools = append(o.laws.Pools, pool)
	}
	slices.SortFunc(o.laws.Profiles, func(x, y advise.Profile) int { return cmp.Compare(x.Name, y.Name) })
}

// Profiles says which ServiceProfiles there are, the oldest first. They must not be changed afterwards.
func (a *Agent) Profiles(list []spec.NamedProfile) {
	a.node.Loop.Post(func() { a.profiles.set(list) })
}
