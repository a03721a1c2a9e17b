package parse

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
)

func appIs(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func showPods(s *facts.PodSelector) string {
	out := s.Labels.String() + " in " + fmt.Sprint(s.Namespaces)
	if s.NamespaceSelector != nil {
		out += " or " + s.NamespaceSelector.String()
	}
	return out
}

// showPodRules renders what Requirements say about other pods, a rule a line.
func showPodRules(r *facts.Requirements) string {
	var lines []string
	for _, c := range r.Spread {
		line := fmt.Sprintf("spread %s skew %d hard %v domains %d: %s", c.TopologyKey, c.MaxSkew, c.Hard, c.MinDomains, showPods(&c.Pods))
		if c.HonorAffinity {
			line += " honor affinity"
		}
		if c.HonorTaints {
			line += " honor taints"
		}
		if c.Default {
			line += " default"
		}
		lines = append(lines, line)
	}
	for _, t := range r.Affinity {
		lines = append(lines, "near "+t.TopologyKey+": "+showPods(&t.Pods))
	}
	for _, t := range r.AntiAffinity {
		lines = append(lines, "far "+t.TopologyKey+": "+showPods(&t.Pods))
	}
	for _, t := range r.PreferredPods {
		lines = append(lines, fmt.Sprintf("prefer %d %s: %s", t.Weight, t.TopologyKey, showPods(&t.Pods)))
	}
	return strings.Join(lines, "\n")
}

func expr(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
}

func matching(expressions ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: expressions}
}

var malformedSelector = matching(expr("app", metav1.LabelSelectorOpIn))

func TestSelector(t *testing.T) {
	cases := map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"none":  {nil, "nothing"},
		"empty": {&metav1.LabelSelector{}, "everything"},
		"all operators, sorted": {
			&metav1.LabelSelector{
				MatchLabels: map[string]string{"z": "1", "a": "2"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					expr("n", metav1.LabelSelectorOpNotIn, "y", "x", "y"), expr("e", metav1.LabelSelectorOpExists),
					expr("d", metav1.LabelSelectorOpDoesNotExist), expr("i", metav1.LabelSelectorOpIn, "v"),
				},
			},
			"a In [2], d DoesNotExist, e Exists, i In [v], n NotIn [x y], z In [1]",
		},
		"what is said twice counts once": {
			&metav1.LabelSelector{
				MatchLabels: map[string]string{"a": "1"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					expr("a", metav1.LabelSelectorOpIn, "1", "1"), expr("a", metav1.LabelSelectorOpIn, "2"),
				},
			},
			"a In [1], a In [2]",
		},
		"no values":      {malformedSelector, "error"},
		"odd operator":   {matching(expr("app", "Like", "x")), "error"},
		"malformed key":  {matching(expr("no key", metav1.LabelSelectorOpExists)), "error"},
		"too many":       {matching(expr("app", metav1.LabelSelectorOpExists, "x")), "error"},
		"malformed pair": {appIs("not a label value"), "error"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := NewParser("hilbert", nil).constraints.selector(c.selector)
			got := s.String()
			if err != nil {
				got = "error"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	honor, ignore, odd := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicy("Odd")
	three, zero := int32(3), int32(0)
	hard := func(change func(*corev1.TopologySpreadConstraint)) []corev1.TopologySpreadConstraint {
		c := corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: appIs("web")}
		if change != nil {
			change(&c)
		}
		return []corev1.TopologySpreadConstraint{c}
	}
	const base = "spread zone skew 2 hard true domains 1: app In [web] in [default] honor affinity"
	cases := map[string]struct {
		constraints []corev1.TopologySpreadConstraint
		want        string
	}{
		"none":     {nil, ""},
		"defaults": {hard(nil), base},
		"soft": {
			hard(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }), strings.Replace(base, "true", "false", 1),
		},
		"min domains":          {hard(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &three }), strings.Replace(base, "domains 1", "domains 3", 1)},
		"no domains are one":   {hard(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &zero }), base},
		"affinity is ignored":  {hard(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }), strings.TrimSuffix(base, " honor affinity")},
		"affinity is honoured": {hard(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &honor }), base},
		"taints are honoured":  {hard(func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }), base + " honor taints"},
		"taints are ignored":   {hard(func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &ignore }), base},
		"odd policies honour nothing": {
			hard(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy, c.NodeTaintsPolicy = &odd, &odd }), strings.TrimSuffix(base, " honor affinity"),
		},
		"no selector": {
			hard(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = nil }), strings.Replace(base, "app In [web]", "nothing", 1),
		},
		"no selector stays nothing with keys": {
			hard(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector, c.MatchLabelKeys = nil, []string{"hash"} }),
			strings.Replace(base, "app In [web]", "nothing", 1),
		},
		"keys": {
			hard(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"hash", "absent", "empty"} }),
			strings.Replace(base, "app In [web]", "app In [web], empty In [], hash In [ab]", 1),
		},
		"keys that the API server has merged": {
			hard(func(c *corev1.TopologySpreadConstraint) {
				c.MatchLabelKeys = []string{"hash"}
				c.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{expr("hash", metav1.LabelSelectorOpIn, "ab")}
			}),
			strings.Replace(base, "app In [web]", "app In [web], hash In [ab]", 1),
		},
		"keys narrow everything": {
			hard(func(c *corev1.TopologySpreadConstraint) {
				c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, []string{"hash"}
			}),
			strings.Replace(base, "app In [web]", "hash In [ab]", 1),
		},
		"absent keys do not": {
			hard(func(c *corev1.TopologySpreadConstraint) {
				c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, []string{"absent"}
			}),
			strings.Replace(base, "app In [web]", "everything", 1),
		},
		"in order": {
			append(hard(nil), hard(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = "host" })...),
			base + "\n" + strings.Replace(base, "zone", "host", 1),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := ours(func(p *corev1.Pod) {
				p.Labels = map[string]string{"hash": "ab", "empty": "", "app": "web"}
				p.Spec.TopologySpreadConstraints = c.constraints
			})
			r := NewParser("hilbert", nil).Pod(pod).Requirements
			if got := showPodRules(r); got != c.want || r.Impossible != "" || r.Unsupported != nil {
				t.Errorf("got  %s\nwant %s\nimpossible %q, unsupported %q", got, c.want, r.Impossible, r.Unsupported)
			}
			if foreign := NewParser("other", nil).Pod(pod).Requirements; foreign.Spread != nil {
				t.Errorf("of somebody else's pod: %s", showPodRules(foreign))
			}
		})
	}
}

func near(terms ...corev1.PodAffinityTerm) *corev1.Affinity {
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

func far(terms ...corev1.PodAffinityTerm) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

func weighted(weight int32, term corev1.PodAffinityTerm) corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term}
}

func TestPodAffinity(t *testing.T) {
	web := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: appIs("web")}
	with := func(change func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
		term := *web.DeepCopy()
		change(&term)
		return term
	}
	cases := map[string]struct {
		affinity *corev1.Affinity
		want     string
	}{
		"none":       {nil, ""},
		"empty":      {&corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}, ""},
		"near":       {near(web), "near zone: app In [web] in [default]"},
		"far":        {far(web, web), "far zone: app In [web] in [default]\nfar zone: app In [web] in [default]"},
		"namespaces": {near(with(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"b", "a", "b"} })), "near zone: app In [web] in [a b]"},
		"namespaces by label": {
			near(with(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = appIs("x") })), "near zone: app In [web] in [] or app In [x]",
		},
		"every namespace": {
			near(with(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} })), "near zone: app In [web] in [] or everything",
		},
		"both": {
			near(with(func(t *corev1.PodAffinityTerm) { t.Namespaces, t.NamespaceSelector = []string{"a"}, appIs("x") })),
			"near zone: app In [web] in [a] or app In [x]",
		},
		"no selector": {near(with(func(t *corev1.PodAffinityTerm) { t.LabelSelector = nil })), "near zone: nothing in [default]"},
		"any pod":     {far(with(func(t *corev1.PodAffinityTerm) { t.LabelSelector = &metav1.LabelSelector{} })), "far zone: everything in [default]"},
		"keys have been merged by the API server": {
			near(with(func(t *corev1.PodAffinityTerm) {
				t.MatchLabelKeys, t.MismatchLabelKeys = []string{"hash"}, []string{"tenant"}
			})),
			"near zone: app In [web] in [default]",
		},
		"preferences": {
			&corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					weighted(7, web), weighted(0, web),
				}},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					weighted(9, with(func(t *corev1.PodAffinityTerm) { t.TopologyKey = "host" })), weighted(0, web),
				}},
			},
			"prefer 7 zone: app In [web] in [default]\nprefer -9 host: app In [web] in [default]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := ours(func(p *corev1.Pod) {
				p.Labels = map[string]string{"hash": "ab", "tenant": "t"}
				p.Spec.Affinity = c.affinity
			})
			for _, scheduler := range []string{"hilbert", "other"} { // whom a pod of another scheduler keeps away, it keeps away from ours too
				r := NewParser(scheduler, nil).Pod(pod).Requirements
				if got := showPodRules(r); got != c.want || r.Impossible != "" || r.Unsupported != nil {
					t.Errorf("%s: got  %s\nwant %s\nimpossible %q, unsupported %q", scheduler, got, c.want, r.Impossible, r.Unsupported)
				}
			}
		})
	}
}

func TestMalformedSelectors(t *testing.T) {
	const group = "DuringSchedulingIgnoredDuringExecution"
	good := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: appIs("web")}
	bad := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: malformedSelector}
	badNamespaces := good
	badNamespaces.NamespaceSelector = malformedSelector
	cases := map[string]struct {
		change func(*corev1.PodSpec)
		rules  string // what is left
	}{
		"spec.affinity.podAffinity.required" + group + "[1].labelSelector: ": {
			func(s *corev1.PodSpec) {
				s.Affinity = near(good, bad)
				s.Affinity.PodAntiAffinity = far(good).PodAntiAffinity
			}, "far zone: app In [web] in [default]",
		},
		"spec.affinity.podAntiAffinity.required" + group + "[0].namespaceSelector: ": {
			func(s *corev1.PodSpec) {
				s.Affinity = near(good)
				s.Affinity.PodAntiAffinity = far(badNamespaces).PodAntiAffinity
			}, "near zone: app In [web] in [default]",
		},
		"spec.affinity.podAffinity.preferred" + group + "[0].podAffinityTerm.labelSelector: ": { // though its weight is nothing
			func(s *corev1.PodSpec) {
				s.Affinity = near(good)
				s.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{weighted(0, bad)}
			}, "near zone: app In [web] in [default]",
		},
		"spec.affinity.podAntiAffinity.preferred" + group + "[1].podAffinityTerm.namespaceSelector: ": {
			func(s *corev1.PodSpec) {
				s.Affinity = far(good)
				s.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{
					weighted(1, good), weighted(1, badNamespaces),
				}
			}, "far zone: app In [web] in [default]",
		},
		"spec.topologySpreadConstraints[1].labelSelector: ": {
			func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
					{WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: appIs("web")}, {WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: malformedSelector},
				}
			}, "",
		},
	}
	for want, c := range cases {
		t.Run(want, func(t *testing.T) {
			pod := ours(func(p *corev1.Pod) { c.change(&p.Spec) })
			if r := NewParser("hilbert", nil).Pod(pod).Requirements; !strings.HasPrefix(r.Impossible, want) || len(r.Impossible) == len(want) {
				t.Errorf("impossible: %q", r.Impossible)
			}
			log := &bytes.Buffer{}
			p := NewParser("other", slog.New(slog.NewTextHandler(log, nil)))
			r := p.Pod(pod).Requirements
			if got := showPodRules(r); r.Impossible != "" || got != c.rules {
				t.Errorf("of somebody else's pod: %s, impossible %q", got, r.Impossible)
			}
			if warned := strings.Contains(log.String(), want); warned != strings.HasPrefix(want, "spec.affinity") {
				t.Errorf("warned %v: %s", warned, log)
			}
		})
	}
}

func anyLabels(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "x", "y"}), 0, 3).Draw(t, label)
}

// anySelector draws a selector, now and then one that cannot be read.
func anySelector(t *rapid.T, label string) *metav1.LabelSelector {
	if rapid.IntRange(0, 9).Draw(t, label+" none") == 0 {
		return nil
	}
	s := &metav1.LabelSelector{MatchLabels: anyLabels(t, label)}
	for range rapid.IntRange(0, 2).Draw(t, label+" expressions") {
		e := expr(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, label+" key"), rapid.SampledFrom([]metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}).Draw(t, label+" operator"))
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y"}), 1, 3).Draw(t, label+" values")
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	if rapid.IntRange(0, 19).Draw(t, label+" malformed") == 0 {
		s.MatchExpressions = append(s.MatchExpressions, expr("a", metav1.LabelSelectorOpIn))
	}
	return s
}

// anyPodRules gives a pod all that speaks of other pods, or of images.
func anyPodRules(t *rapid.T, pod *corev1.Pod) {
	pod.Namespace = rapid.SampledFrom([]string{"default", "a", "b"}).Draw(t, "namespace")
	pod.Labels = anyLabels(t, "own")
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = rapid.SampledFrom([]string{"web", "web:latest", "db:v1"}).Draw(t, "image")
	}
	term := func() (term corev1.PodAffinityTerm) {
		term.TopologyKey = rapid.SampledFrom([]string{"zone", "host"}).Draw(t, "topology")
		term.LabelSelector = anySelector(t, "term")
		term.Namespaces = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "namespaces")
		if rapid.Bool().Draw(t, "namespaces by label") {
			term.NamespaceSelector = anySelector(t, "namespace")
		}
		return term
	}
	if rapid.Bool().Draw(t, "near") {
		pod.Spec.Affinity = near(term())
	}
	if rapid.Bool().Draw(t, "far") {
		pod.Spec.Affinity = far(term())
		pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{
			weighted(int32(rapid.IntRange(0, 2).Draw(t, "weight")), term()),
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "spread") {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: rapid.SampledFrom([]string{"zone", "host"}).Draw(t, "topology"),
			WhenUnsatisfiable: rapid.SampledFrom([]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}).Draw(t, "when"),
			LabelSelector:     anySelector(t, "spread"),
			MatchLabelKeys:    rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "d"}), 0, 2, rapid.ID).Draw(t, "keys"),
		})
	}
}

// A parsed selector selects what upstream's does, and equal selectors are parsed to equal ones.
func TestSelectorsAgreeWithUpstream(t *testing.T) {
	p := NewParser("hilbert", nil)
	rapid.Check(t, func(t *rapid.T) {
		s, own, candidate := anySelector(t, "selector"), anyLabels(t, "own"), anyLabels(t, "labels")
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "d"}), 0, 3).Draw(t, "keys")
		upstream, upstreamErr := metav1.LabelSelectorAsSelector(s)
		got, err := p.constraints.selector(s)
		if (err != nil) != (upstreamErr != nil) {
			t.Fatalf("got error %v, upstream %v", err, upstreamErr)
		}
		if err != nil {
			return
		}
		want := upstream.Matches(labels.Set(candidate))
		if matches := got.Matches(p.labels.of(candidate)); matches != want {
			t.Fatalf("%+v matches %v: %v, upstream %v", got, candidate, matches, want)
		}
		if got.MatchesAll() != upstream.Empty() {
			t.Fatalf("%+v matches everything: %v, upstream %v", got, got.MatchesAll(), upstream.Empty())
		}
		for _, key := range keys {
			if value, ok := own[key]; ok {
				has, there := candidate[key]
				want = want && there && has == value
			}
		}
		merged := p.constraints.withOwnLabels(got, keys, own)
		if matches := merged.Matches(p.labels.of(candidate)); matches != want {
			t.Fatalf("%+v matches %v: %v, upstream %v", merged, candidate, matches, want)
		}
		if s == nil {
			return
		}
		reversed := s.DeepCopy()
		slices.Reverse(reversed.MatchExpressions)
		if again, _ := p.constraints.selector(reversed); !got.Equal(&again) {
			t.Fatalf("in another order %+v, not %+v", again, got)
		}
	})
}
