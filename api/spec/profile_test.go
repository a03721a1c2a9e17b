package spec

import (
	"math"
	"strings"
	"testing"
	"time"
)

func goodProfile() *ServiceProfile {
	return &ServiceProfile{
		Selector: PodSelector{MatchLabels: map[string]string{"app": "web"}},
		Indicators: []ProfileIndicator{
			{Type: IndicatorRunDelay, Target: 0.05},
			{Type: IndicatorMetric, Target: 0.02, Weight: 2, Metric: &ProfileMetric{Port: 8080, Name: "request_seconds", Quantile: 0.99, Labels: map[string]string{"verb": "GET"}}},
		},
		Bounds: ProfileBounds{MinCPUs: 2, MaxCPUs: 8, MinPercent: 50, MaxPercent: 200},
		Period: Duration(10 * time.Second),
	}
}

// Each mistake is told by the field that it is in, and nothing else is.
func TestValidateProfile(t *testing.T) {
	if err := ValidateProfile(goodProfile()); err != nil {
		t.Fatal(err)
	}
	metric := func(change func(*ProfileMetric)) func(*ServiceProfile) {
		return func(p *ServiceProfile) { change(p.Indicators[1].Metric) }
	}
	terms := func(list ...SelectorTerm) func(*ServiceProfile) {
		return func(p *ServiceProfile) { p.Selector.MatchExpressions = list }
	}
	for want, change := range map[string]func(*ServiceProfile){
		"spec.selector: it has 0 terms":                     func(p *ServiceProfile) { p.Selector = PodSelector{} },
		"spec.selector.matchLabels: \"app\"":                func(p *ServiceProfile) { p.Selector.MatchLabels["app"] = "a b" },
		"spec.selector.matchExpressions[0].key":             terms(SelectorTerm{Key: "/", Operator: SelectExists}),
		"spec.selector.matchExpressions[0].operator":        terms(SelectorTerm{Key: "a", Operator: "in"}),
		"spec.selector.matchExpressions[0].values: In":      terms(SelectorTerm{Key: "a", Operator: SelectIn}),
		"spec.selector.matchExpressions[0].values: Exists":  terms(SelectorTerm{Key: "a", Operator: SelectExists, Values: []string{"b"}}),
		"spec.selector.matchExpressions[0].values: \"b c\"": terms(SelectorTerm{Key: "a", Operator: SelectIn, Values: []string{"b c"}}),
		"spec.indicators: there are 0":                      func(p *ServiceProfile) { p.Indicators = nil },
		"spec.indicators: there are 9":                      func(p *ServiceProfile) { p.Indicators = make9(p.Indicators[0]) },
		"spec.indicators[0].type":                           func(p *ServiceProfile) { p.Indicators[0].Type = "Latency" },
		"spec.indicators[0].target: 0 ":                     func(p *ServiceProfile) { p.Indicators[0].Target = 0 },
		"spec.indicators[0].target: NaN":                    func(p *ServiceProfile) { p.Indicators[0].Target = math.NaN() },
		"spec.indicators[0].target: 2 ": func(p *ServiceProfile) {
			p.Indicators[0] = ProfileIndicator{Type: IndicatorCPUPressure, Target: 2}
		},
		"spec.indicators[0].weight":             func(p *ServiceProfile) { p.Indicators[0].Weight = 11 },
		"spec.indicators[0].metric: it belongs": func(p *ServiceProfile) { p.Indicators[0].Metric = p.Indicators[1].Metric },
		"spec.indicators[1].metric: it is missing": func(p *ServiceProfile) {
			p.Indicators[1].Metric = nil
		},
		"spec.indicators[1].metric.port":                 metric(func(m *ProfileMetric) { m.Port = 65536 }),
		"spec.indicators[1].metric.path":                 metric(func(m *ProfileMetric) { m.Path = "metrics?a" }),
		"spec.indicators[1].metric.name":                 metric(func(m *ProfileMetric) { m.Name = "a-b" }),
		"spec.indicators[1].metric.quantile":             metric(func(m *ProfileMetric) { m.Quantile = 99 }),
		"spec.indicators[1].metric.labels: le":           metric(func(m *ProfileMetric) { m.Labels["le"] = "1" }),
		"spec.indicators[1].metric.labels: \"a.b\"":      metric(func(m *ProfileMetric) { m.Labels["a.b"] = "1" }),
		"spec.indicators[1].metric.labels: there are 10": metric(func(m *ProfileMetric) { fill(m.Labels, 9) }),
		"spec.bounds.minCPUs: 9 is more":                 func(p *ServiceProfile) { p.Bounds.MinCPUs = 9 },
		"spec.bounds.maxCPUs: 1025":                      func(p *ServiceProfile) { p.Bounds.MaxCPUs = 1025 },
		"spec.bounds.minPercent: -1":                     func(p *ServiceProfile) { p.Bounds.MinPercent = -1 },
		"spec.bounds.minPercent: 300 is more":            func(p *ServiceProfile) { p.Bounds.MinPercent = 300 },
		"spec.period: 1s":                                func(p *ServiceProfile) { p.Period = Duration(time.Second) },
	} {
		p := goodProfile()
		change(p)
		err := ValidateProfile(p)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("want %q alone, got: %v", want, err)
		}
	}
}

func make9(in ProfileIndicator) (out []ProfileIndicator) {
	for range MaxIndicators + 1 {
		out = append(out, in)
	}
	return out
}

func fill(labels map[string]string, n int) {
	for i := range n {
		labels[strings.Repeat("x", i+1)] = ""
	}
}

func TestMatchProfile(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	profile := func(namespace, name string, created int, s PodSelector) NamedProfile {
		return NamedProfile{Namespace: namespace, Name: name, Created: at(created), ServiceProfile: ServiceProfile{Selector: s}}
	}
	web := PodSelector{MatchLabels: map[string]string{"app": "web"}}
	term := func(key, operator string, values ...string) PodSelector {
		return PodSelector{MatchExpressions: []SelectorTerm{{key, operator, values}}}
	}
	profiles := []NamedProfile{
		profile("shop", "young", 3, web), profile("shop", "b", 2, web), profile("shop", "a", 2, web), profile("bank", "old", 1, web),
		profile("shop", "all", 0, PodSelector{}),
		profile("set", "in", 1, term("tier", SelectIn, "x", "y")), profile("set", "not", 2, term("tier", SelectNotIn, "x", "y")),
		profile("has", "has", 1, term("tier", SelectExists)), profile("has", "none", 2, term("tier", SelectDoesNotExist)),
		profile("bad", "bad", 1, term("tier", "Near")),
		profile("both", "both", 1, PodSelector{MatchLabels: web.MatchLabels, MatchExpressions: term("tier", SelectExists).MatchExpressions}),
	}
	for _, c := range []struct{ namespace, app, tier, want string }{
		{"shop", "web", "", "shop/a but shop/b shop/young"},
		{"bank", "web", "", "bank/old"},
		{"shop", "db", "", ""},
		{"shop", "", "", ""},
		{"other", "web", "", ""},
		{"set", "", "y", "set/in"},
		{"set", "", "z", "set/not"},
		{"set", "", "", "set/not"},
		{"has", "", "z", "has/has"},
		{"has", "", "", "has/none"},
		{"bad", "", "z", ""},
		{"both", "web", "", ""},
		{"both", "web", "z", "both/both"},
	} {
		labels := map[string]string{}
		if c.app != "" {
			labels["app"] = c.app
		}
		if c.tier != "" {
			labels["tier"] = c.tier
		}
		best, others := MatchProfile(profiles, c.namespace, labels)
		got := ""
		if best != nil {
			got = best.String()
		}
		for i, o := range others {
			if i == 0 {
				got += " but"
			}
			got += " " + o.String()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
