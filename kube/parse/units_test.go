package parse

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/cluster/facts"
)

var testLevels = []string{"block", "rack", "kubernetes.io/hostname"}

// readGroup parses a PodGroup in YAML as the adapter of an API does.
func readGroup(t testing.TB, api, text string) *facts.Unit {
	t.Helper()
	p := NewParser("hilbert", nil, testLevels...)
	read := func(into any) {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	switch api {
	case "v1beta1":
		var g schedulingv1beta1.PodGroup
		read(&g)
		return p.PodGroup(&g)
	case "sigs":
		var g SigsPodGroup
		read(&g)
		return p.SigsPodGroup(&g)
	}
	var g AlphaPodGroup
	read(&g)
	return p.AlphaPodGroup(&g)
}

// showUnit renders what differs from a plain unit of one member.
func showUnit(u *facts.Unit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "min=%d", u.MinMember)
	field := func(name string, value any, present bool) {
		if present {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	field("timeout", time.Duration(u.Timeout), u.Timeout != 0)
	field("priority", u.Priority, u.Prioritized)
	field("never", u.NeverPreempts, u.NeverPreempts)
	field("indivisible", u.Indivisible, u.Indivisible)
	field("divisible", u.Divisible, u.Divisible)
	field("topology", fmt.Sprintf("%+v", u.Topology), !u.Topology.IsZero())
	field("subgroups", fmt.Sprintf("%+v", u.SubgroupTopology), !u.SubgroupTopology.IsZero())
	field("scheduled", u.Scheduled, u.Scheduled)
	field("reported", fmt.Sprintf("%+v", u.Reported), u.Reported != facts.UnitCondition{})
	field("invalid", u.Invalid, u.Invalid != "")
	return b.String()
}

func TestPodGroups(t *testing.T) {
	const both = "v1beta1 v1alpha2"
	for name, c := range map[string]struct{ apis, text, want string }{
		"gang":                   {both, `{spec: {schedulingPolicy: {gang: {minCount: 4}}}}`, "min=4"},
		"basic":                  {both, `{spec: {schedulingPolicy: {basic: {}}}}`, "min=1"},
		"neither":                {both, `{spec: {schedulingPolicy: {}}}`, "min=1 invalid=spec.schedulingPolicy: neither basic nor gang, and nothing else is supported; set one of them"},
		"no member":              {both, `{spec: {schedulingPolicy: {gang: {minCount: 0}}}}`, "min=1 invalid=spec.schedulingPolicy.gang.minCount: 0 is too few; at least 1 pod must be placed together"},
		"negative":               {both, `{spec: {schedulingPolicy: {gang: {minCount: -5}}}}`, "min=1 invalid=spec.schedulingPolicy.gang.minCount: -5 is too few; at least 1 pod must be placed together"},
		"most":                   {both, `{spec: {schedulingPolicy: {gang: {minCount: 100000}}}}`, "min=100000"},
		"too many":               {both, `{spec: {schedulingPolicy: {gang: {minCount: 100001}}}}`, "min=1 invalid=spec.schedulingPolicy.gang.minCount: 100001 is too many; at most 100000 pods can be placed together"},
		"priority":               {both, `{spec: {schedulingPolicy: {basic: {}}, priority: 7}}`, "min=1 priority=7"},
		"priority zero":          {both, `{spec: {schedulingPolicy: {basic: {}}, priority: 0}}`, "min=1 priority=0"},
		"preemption":             {both, `{spec: {schedulingPolicy: {basic: {}}, preemptionPolicy: Never}}`, "min=1 never=true"},
		"preemption lower":       {both, `{spec: {schedulingPolicy: {basic: {}}, preemptionPolicy: PreemptLowerPriority}}`, "min=1"},
		"all go":                 {both, `{spec: {schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}}}`, "min=1 indivisible=true"},
		"one goes":               {both, `{spec: {schedulingPolicy: {basic: {}}, disruptionMode: {single: {}}}}`, "min=1 divisible=true"},
		"all go, by a word":      {"v1alpha2", `{spec: {schedulingPolicy: {basic: {}}, disruptionMode: PodGroup}}`, "min=1 indivisible=true"},
		"one goes, by a word":    {"v1alpha2", `{spec: {schedulingPolicy: {basic: {}}, disruptionMode: Pod}}`, "min=1 divisible=true"},
		"topology":               {both, `{spec: {schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: rack}]}}}`, "min=1 topology={Required:rack Preferred: Spread: Uniform:}"},
		"two topologies":         {both, `{spec: {schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: rack}, {key: block}]}}}`, "min=1 topology={Required:rack Preferred: Spread: Uniform:} invalid=spec.schedulingConstraints.topology: 2 constraints, and only one is supported; keep the narrowest"},
		"malformed topology":     {both, `{spec: {schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: "a b"}]}}}`, "min=1 topology={Required:a b Preferred: Spread: Uniform:} invalid=spec.schedulingConstraints.topology[0].key: \"a b\" is no name of a node label: "},
		"composite":              {both, `{spec: {schedulingPolicy: {basic: {}}, parentCompositePodGroupName: top}}`, "min=1 invalid=spec.parentCompositePodGroupName: \"top\": composite pod groups are not supported; "},
		"claims":                 {both, `{spec: {schedulingPolicy: {basic: {}}, resourceClaims: [{name: a, resourceClaimName: b}]}}`, "min=1 invalid=spec.resourceClaims: claims of a whole group are not supported; leave them out"},
		"waits":                  {both, `{spec: {schedulingPolicy: {basic: {}}}, status: {conditions: [{type: PodGroupInitiallyScheduled, status: "False", reason: R, message: M}]}}`, "min=1 reported={Met:false Reason:R Message:M}"},
		"was whole":              {both, `{spec: {schedulingPolicy: {basic: {}}}, status: {conditions: [{type: Other, status: "False"}, {type: PodGroupInitiallyScheduled, status: "True", reason: R}]}}`, "min=1 scheduled=true reported={Met:true Reason:R Message:}"},
		"was whole, older":       {"v1alpha2", `{spec: {schedulingPolicy: {basic: {}}}, status: {conditions: [{type: PodGroupScheduled, status: "True", reason: R}]}}`, "min=1 scheduled=true reported={Met:true Reason:R Message:}"},
		"sigs":                   {"sigs", `{spec: {minMember: 3}}`, "min=3"},
		"sigs without members":   {"sigs", `{spec: {}}`, "min=1 invalid=spec.minMember: 0 is too few; at least 1 pod must be placed together"},
		"sigs too many":          {"sigs", `{spec: {minMember: 2147483647}}`, "min=1 invalid=spec.minMember: 2147483647 is too many; at most 100000 pods can be placed together"},
		"sigs timeout":           {"sigs", `{spec: {minMember: 3, scheduleTimeoutSeconds: 90}}`, "min=3 timeout=1m30s"},
		"sigs no timeout":        {"sigs", `{spec: {minMember: 3, scheduleTimeoutSeconds: 0}}`, "min=3"},
		"sigs negative timeout":  {"sigs", `{spec: {minMember: 3, scheduleTimeoutSeconds: -1}}`, "min=3 invalid=spec.scheduleTimeoutSeconds: -1 is negative; "},
		"sigs same timeout":      {"sigs", `{metadata: {annotations: {scheduling.hilbert.dev/timeout: 1m}}, spec: {minMember: 3, scheduleTimeoutSeconds: 60}}`, "min=3 timeout=1m0s"},
		"sigs other timeout":     {"sigs", `{metadata: {annotations: {scheduling.hilbert.dev/timeout: 2m}}, spec: {minMember: 3, scheduleTimeoutSeconds: 60}}`, "min=3 timeout=1m0s invalid=metadata.annotations[scheduling.hilbert.dev/timeout]: 2m0s, but spec.scheduleTimeoutSeconds says 1m0s; leave one of them out"},
		"sigs annotations":       {"sigs", `{metadata: {annotations: {scheduling.hilbert.dev/required-topology: rack}}, spec: {minMember: 3}}`, "min=3 topology={Required:rack Preferred: Spread: Uniform:}"},
		"sigs waits":             {"sigs", `{spec: {minMember: 3}, status: {phase: Pending}}`, "min=3"},
		"sigs has places":        {"sigs", `{spec: {minMember: 3}, status: {phase: Scheduling}}`, "min=3 scheduled=true reported={Met:true Reason: Message:}"},
		"sigs runs":              {"sigs", `{spec: {minMember: 3}, status: {phase: Running}}`, "min=3 scheduled=true reported={Met:true Reason: Message:}"},
		"sigs lost some of them": {"sigs", `{spec: {minMember: 3}, status: {phase: Unknown}}`, "min=3"},
	} {
		for api := range strings.FieldsSeq(c.apis) {
			t.Run(name+" "+api, func(t *testing.T) {
				got := showUnit(readGroup(t, api, c.text))
				if got != c.want && (!strings.HasSuffix(c.want, " ") || !strings.HasPrefix(got, c.want)) {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		}
	}
}

// annotated is a PodGroup that needs rack by its field, if field says so, with annotations.
func annotated(field string, annotations map[string]string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	if field != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: field}}}
	}
	for name, value := range annotations {
		if g.Annotations == nil {
			g.Annotations = make(map[string]string)
		}
		g.Annotations["scheduling.hilbert.dev/"+name] = value
	}
	return g
}

func TestPodGroupAnnotations(t *testing.T) {
	const at = "metadata.annotations[scheduling.hilbert.dev/"
	for name, c := range map[string]struct {
		field       string
		annotations map[string]string
		want        string // a prefix of Invalid, or what showUnit says
	}{
		"everything": {"block", map[string]string{
			"required-topology": "block", "preferred-topology": "rack", "spread-topology": "kubernetes.io/hostname", "uniform": "hilbert.dev/gpu-model",
			"subgroup-required-topology": "rack", "subgroup-preferred-topology": "kubernetes.io/hostname", "timeout": "1h30m",
		}, "min=1 timeout=1h30m0s topology={Required:block Preferred:rack Spread:kubernetes.io/hostname Uniform:hilbert.dev/gpu-model} " +
			"subgroups={Required:rack Preferred:kubernetes.io/hostname Spread: Uniform:}"},
		"required by annotation": {"", map[string]string{"required-topology": "rack"}, "min=1 topology={Required:rack Preferred: Spread: Uniform:}"},
		"two that differ": {"rack", map[string]string{"required-topology": "block"}, `spec.schedulingConstraints.topology[0].key: "rack", but the annotation ` +
			`scheduling.hilbert.dev/required-topology says "block"; leave one of them out`},
		"preferred is wider": {"rack", map[string]string{"preferred-topology": "block"}, at + "preferred-topology]: block is not narrower than rack, which is required; " +
			"name a narrower level, or leave one of them out"},
		"preferred is the same":         {"rack", map[string]string{"preferred-topology": "rack"}, at + "preferred-topology]: rack is not narrower than rack"},
		"the same, not configured":      {"zone", map[string]string{"preferred-topology": "zone"}, at + "preferred-topology]: zone is not narrower than zone"},
		"spread is wider":               {"rack", map[string]string{"spread-topology": "block"}, at + "spread-topology]: block is not narrower than rack"},
		"subgroups' preferred is wider": {"", map[string]string{"subgroup-required-topology": "rack", "subgroup-preferred-topology": "block"}, at + "subgroup-preferred-topology]: block is not narrower than rack"},
		"levels without order":          {"zone", map[string]string{"preferred-topology": "block"}, "min=1 topology={Required:zone Preferred:block Spread: Uniform:}"},
		"no name":                       {"", map[string]string{"preferred-topology": "a b"}, at + `preferred-topology]: "a b" is no name of a node label: `},
		"no name of uniform":            {"", map[string]string{"uniform": "/x"}, at + `uniform]: "/x" is no name of a node label: `},
		"no duration":                   {"", map[string]string{"timeout": "soon"}, at + `timeout]: "soon" is no duration; write a number with a unit, for example 10m`},
		"no unit":                       {"", map[string]string{"timeout": "10"}, at + `timeout]: "10" is no duration`},
		"no time":                       {"", map[string]string{"timeout": "0s"}, at + `timeout]: "0s" is not positive`},
		"negative time":                 {"", map[string]string{"timeout": "-1m"}, at + `timeout]: "-1m" is not positive`},
		"empty is nothing":              {"rack", map[string]string{"timeout": "", "required-topology": ""}, "min=1 topology={Required:rack Preferred: Spread: Uniform:}"},
	} {
		t.Run(name, func(t *testing.T) {
			u := NewParser("hilbert", nil, testLevels...).PodGroup(annotated(c.field, c.annotations))
			if got := showUnit(u); got != c.want && (u.Invalid == "" || !strings.HasPrefix(u.Invalid, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The message about a hostile annotation stays short.
func TestInvalidIsBounded(t *testing.T) {
	long := strings.Repeat("x y", 100_000)
	for _, annotation := range []string{"required-topology", "timeout", "uniform"} {
		u := NewParser("hilbert", nil).PodGroup(annotated("", map[string]string{annotation: long}))
		if u.Invalid == "" || len(u.Invalid) > 1000 {
			t.Errorf("%s: %d bytes", annotation, len(u.Invalid))
		}
	}
}

func TestPodsOfUnits(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*corev1.Pod)
		unit, subgroup string
		deadline       time.Duration
	}{
		"alone":    {func(*corev1.Pod) {}, "", "", 0},
		"by spec":  {func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")} }, "g", "", 0},
		"by label": {func(p *corev1.Pod) { p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "h"} }, "h", "", 0},
		"by both": {func(p *corev1.Pod) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
			p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "h", "scheduling.hilbert.dev/subgroup": "a"}
		}, "g", "a", 0},
		"a subgroup of nothing": {func(p *corev1.Pod) { p.Labels = map[string]string{"scheduling.hilbert.dev/subgroup": "a"} }, "", "", 0},
		"deadline":              {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(90)) }, "", "", 90 * time.Second},
		"endless deadline":      {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1<<63 - 1)) }, "", "", maxDeadline},
		"negative deadline":     {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(-1)) }, "", "", 0},
		"another scheduler's": {func(p *corev1.Pod) {
			p.Spec.SchedulerName, p.Spec.NodeName = "other", "n1"
			p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "h"}
		}, "h", "", 0},
	} {
		got := NewParser("hilbert", nil).Pod(ours(c.change))
		if got.Unit != c.unit || got.Subgroup != c.subgroup || got.Deadline != int64(c.deadline) {
			t.Errorf("%s: unit %q, subgroup %q, deadline %s", name, got.Unit, got.Subgroup, time.Duration(got.Deadline))
		}
		if len(got.Requirements.Unsupported) > 0 {
			t.Errorf("%s: unsupported %v", name, got.Requirements.Unsupported)
		}
	}
}

// anyGroup draws a PodGroup in JSON that fits all versions, and the sigs' too.
func anyGroup(t *rapid.T) []byte {
	key := rapid.SampledFrom([]string{"", "block", "rack", "kubernetes.io/hostname", "zone", "a b", "/", "\x00"})
	annotations := map[string]string{}
	for _, name := range []string{"required-topology", "preferred-topology", "spread-topology", "uniform", "subgroup-required-topology", "subgroup-preferred-topology"} {
		if rapid.Bool().Draw(t, name) {
			annotations["scheduling.hilbert.dev/"+name] = key.Draw(t, name)
		}
	}
	if rapid.Bool().Draw(t, "timeout") {
		annotations["scheduling.hilbert.dev/timeout"] = rapid.SampledFrom([]string{"", "1m", "-1m", "0", "x", "9999999h"}).Draw(t, "timeout")
	}
	spec := map[string]any{
		"minMember": rapid.Int32().Draw(t, "minMember"), "scheduleTimeoutSeconds": rapid.Int32().Draw(t, "seconds"),
		"disruptionMode": map[string]any{rapid.SampledFrom([]string{"all", "single", "other"}).Draw(t, "mode"): map[string]any{}},
	}
	policy := map[string]any{}
	if rapid.Bool().Draw(t, "gang") {
		policy["gang"] = map[string]any{"minCount": rapid.Int32Range(-2, 100_002).Draw(t, "minCount")}
	}
	if rapid.Bool().Draw(t, "basic") {
		policy["basic"] = map[string]any{}
	}
	spec["schedulingPolicy"] = policy
	if rapid.Bool().Draw(t, "topology") {
		spec["schedulingConstraints"] = map[string]any{"topology": []any{map[string]any{"key": key.Draw(t, "key")}}}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "u", "annotations": annotations}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Equal objects are equal facts, whichever parser reads them and whatever it read before; the versions agree; what is valid is in bounds.
func TestEqualGroupsAreEqualFacts(t *testing.T) {
	used := NewParser("hilbert", nil, testLevels...)
	rapid.Check(t, func(t *rapid.T) {
		data := anyGroup(t)
		var beta schedulingv1beta1.PodGroup
		var alpha AlphaPodGroup
		var sigs SigsPodGroup
		for _, into := range []any{&beta, &alpha, &sigs} {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		fresh := NewParser("hilbert", nil, testLevels...)
		if a, b := used.PodGroup(&beta), fresh.PodGroup(beta.DeepCopy()); *a != *b {
			t.Fatalf("%+v\n%+v", a, b)
		} else if c := used.AlphaPodGroup(&alpha); *a != *c {
			t.Fatalf("v1beta1 %+v\nalpha   %+v", a, c)
		}
		if a, b := used.SigsPodGroup(&sigs), fresh.SigsPodGroup(&sigs); *a != *b {
			t.Fatalf("%+v\n%+v", a, b)
		}
		for _, u := range []*facts.Unit{used.PodGroup(&beta), used.SigsPodGroup(&sigs)} {
			if u.MinMember < 1 || u.MinMember > maxMembers || u.Timeout < 0 {
				t.Fatalf("%+v", u)
			}
		}
	})
}

func FuzzPodGroupAnnotations(f *testing.F) {
	f.Add("rack", "block", "10m", "rack")
	f.Add("", "a b", "-1s", "\xff")
	f.Add("x/y/z", "kubernetes.io/hostname", "1e9h", "block")
	p := NewParser("hilbert", nil, testLevels...)
	f.Fuzz(func(t *testing.T, required, preferred, timeout, field string) {
		u := p.PodGroup(annotated(field, map[string]string{
			"required-topology": required, "preferred-topology": preferred, "spread-topology": preferred, "uniform": required, "timeout": timeout,
			"subgroup-required-topology": preferred, "subgroup-preferred-topology": required,
		}))
		if u.Invalid != "" {
			if len(u.Invalid) > 2000 || !strings.Contains(u.Invalid, ": ") {
				t.Fatalf("Invalid: %q", u.Invalid)
			}
			return
		}
		if u.Timeout < 0 || required != "" && u.Topology.Required != required || u.Topology.Preferred != preferred ||
			preferred != "" && preferred == u.Topology.Required {
			t.Fatalf("%+v", u)
		}
	})
}
