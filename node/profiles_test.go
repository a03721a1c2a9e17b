package node

import (
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/scrape"
)

// webProfile wants a metric to be at 1.
func webProfile(name string, created int64) spec.NamedProfile {
	return spec.NamedProfile{
		Namespace: "default", Name: name, Created: time.Unix(created, 0), ServiceProfile: spec.ServiceProfile{
			Selector: spec.PodSelector{MatchLabels: map[string]string{"app": "web"}},
			Indicators: []spec.ProfileIndicator{
				{Type: spec.IndicatorCPUPressure, Target: 0.2},
				{Type: spec.IndicatorMetric, Target: 1, Metric: &spec.ProfileMetric{Port: 80, Name: "m"}},
			},
			Period: spec.Duration(5 * time.Second),
		},
	}
}

// profiled is a lender with an online pod, and a reclaimed one, whose idle CPUs are lent.
func profiled(t *testing.T) *lender {
	l := newLender(t)
	web := sandbox("web", 6, "qos=shared_cores")
	web.Labels["app"], web.Address = "web", "10.0.0.7"
	batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	for _, s := range []runtime.Sandbox{web, batch} {
		if err := l.agent.RunSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range l.busy {
		l.busy[i] = 0.1
	}
	return l
}

// tell has all metrics read with a value, and so many seconds pass. It returns the law's last advice of pools.
func (l *lender) tell(value float64, seconds int) (pools map[string]int, seen advise.Service) {
	l.Helper()
	for range seconds {
		l.agent.Ask(time.Minute, func(a *Agent) {
			targets := a.profiles.wanted()
			results := make([]scrape.Result, len(targets))
			for i := range results {
				results[i] = scrape.Result{Outcome: scrape.Read, Value: value, At: l.now}
			}
			a.profiles.scraped(targets, results)
		})
		l.run(1)
	}
	l.agent.Ask(time.Minute, func(a *Agent) {
		pools = a.lending.advice.Pools
		o := a.sensor.sense(l.now)
		seen = o.laws.Services[0]
		o.release()
	})
	return pools, seen
}

// A service that is too slow by its own word is advised more CPUs, and those are not lent; one that is fast is advised fewer.
func TestProfileKeepsCPUs(t *testing.T) {
	for _, c := range []struct {
		name        string
		metric      float64
		profile     bool
		least, most int // CPUs of the advice
		kept        bool
	}{{"too slow", 5, true, 7, 8, true}, {"fast", 0.1, true, 1, 3, true}, {"no profile", 5, false, 0, 0, false}} {
		l := profiled(t)
		if c.profile {
			profile := webProfile("web", 1)
			profile.Indicators = profile.Indicators[1:] // this kernel tells of no pressure, and what is missing shrinks nothing
			l.agent.Profiles([]spec.NamedProfile{profile})
		}
		pools, _ := l.tell(c.metric, 180)
		if n := pools[spec.PoolShare]; n < c.least || n > c.most {
			t.Errorf("%s: the advice is %v", c.name, pools)
		}
		if kept := l.batch() == "3,7"; kept != c.kept {
			t.Errorf("%s: the reclaimed pod has %s", c.name, l.batch())
		}
	}
}

// What a profile asks for is seen in its order; what is too old, or was not read, is not known. Of two profiles the older is followed, which is told once.
func TestProfileIndicators(t *testing.T) {
	l := profiled(t)
	l.agent.Profiles([]spec.NamedProfile{webProfile("web", 1)})
	_, seen := l.tell(5, 2)
	if seen.Profile != "default/web" || len(seen.Indicators) != 2 || seen.Indicators[1] != advise.Known(5) {
		t.Errorf("%+v", seen)
	}
	l.now = l.now.Add(2 * maxMetricAge)
	l.run(1)
	l.agent.Ask(time.Minute, func(a *Agent) {
		o := a.sensor.sense(l.now)
		seen = o.laws.Services[0]
		o.release()
		if w := a.profiles.wanted(); len(w) != 1 || w[0].Address != "10.0.0.7" || w[0].Metric.Port != 80 {
			t.Errorf("scrapes %+v", w)
		}
	})
	if seen.Indicators[1].Known {
		t.Errorf("an old value is known: %+v", seen)
	}
	if s := l.state(); s.Steered["default/web"] != (Steered{Silent: 1}) {
		t.Errorf("a service of which nothing is known counts as %+v", s.Steered)
	}
	both := []spec.NamedProfile{webProfile("old", 0), webProfile("web", 1)}
	l.agent.Profiles(both)
	l.agent.Profiles(both)
	if _, seen = l.tell(5, 1); seen.Profile != "default/old" {
		t.Errorf("%+v", seen)
	}
	told := strings.Count(strings.Join(l.events(), "\n"), spec.ReasonProfileConflict)
	if told != 1 {
		t.Errorf("the conflict is told %d times", told)
	}
	l.agent.Profiles(nil)
	if pools, seen := l.tell(5, 1); pools != nil || seen.Profile != "" {
		t.Errorf("%v %+v", pools, seen)
	}
}

// A service that is too slow gets what the requests of the other online pods leave, and nothing of what these ask for.
func TestProfileSizesThePool(t *testing.T) {
	l := newLender(t)
	web := sandbox("web", 1, "qos=shared_cores")
	web.Labels["app"], web.Address, web.Annotations[spec.AnnotationPool] = "web", "10.0.0.7", "web"
	for _, s := range []runtime.Sandbox{web, sandbox("other", 3, "qos=shared_cores")} {
		if err := l.agent.RunSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range l.busy {
		l.busy[i] = 0.5
	}
	profile := webProfile("web", 1)
	profile.Indicators = profile.Indicators[1:]
	l.agent.Profiles([]spec.NamedProfile{profile})
	size := func(pod string) (n int) {
		l.agent.Ask(time.Minute, func(a *Agent) {
			p, _ := a.node.Manager.Placement(pod)
			n = p.CPUs.Len()
		})
		return n
	}
	l.tell(1, 5)
	calm := size("web")
	advised, _ := l.tell(5, 60)
	if got, others := size("web"), size("other"); calm != 1 || got < 3 || got > advised["default/web"] || others < 3 {
		t.Errorf("the pool had %d CPUs and has %d, the others have %d of 3, advised are %v", calm, got, others, advised)
	}
	if s := l.state(); s.Steered["default/web"] != (Steered{Known: 1}) || s.SteeredPools["default/web"] != int64(advised["default/web"])*1000 {
		t.Errorf("said of it: %+v, %v", s.Steered, s.SteeredPools)
	}
}
