package requests

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
)

func contextOf(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// object is the ResourceRequest of asksText.
func object(t *testing.T) *v1alpha1.ResourceRequest {
	t.Helper()
	o := &v1alpha1.ResourceRequest{}
	if err := yaml.UnmarshalStrict([]byte(asksText), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A pod is the template's, with what its ask says, and its locality at each level; what the template requires holds besides.
func TestPod(t *testing.T) {
	o := object(t)
	for _, c := range []struct {
		level               request.Level
		required, preferred string
	}{
		{request.Nodes, `{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}]}`, `null`},
		{
			request.Racks, `{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]},` +
				`{"matchExpressions":[{"key":"topology.hilbert.dev/rack","operator":"In","values":["r1"]}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["b"]},{"key":"metadata.name","operator":"NotIn","values":["c"]}]}]}`,
			`[{"weight":100,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}}]`,
		},
		{
			request.Any, `{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["b"]},{"key":"metadata.name","operator":"NotIn","values":["c"]}]}]}`,
			`[{"weight":100,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}},` +
				`{"weight":50,"preference":{"matchExpressions":[{"key":"topology.hilbert.dev/rack","operator":"In","values":["r1"]}]}}]`,
		},
	} {
		p, err := pod(o, &request.Create{Name: "words-x-1", Ask: "map", Index: 1, Level: c.level}, "hilbert")
		if err != nil {
			t.Fatal(err)
		}
		a := p.Spec.Affinity.NodeAffinity
		if got := text(t, a.RequiredDuringSchedulingIgnoredDuringExecution); got != c.required {
			t.Errorf("%s requires %s", c.level, got)
		}
		if got := text(t, a.PreferredDuringSchedulingIgnoredDuringExecution); got != c.preferred {
			t.Errorf("%s prefers %s", c.level, got)
		}
		p.Spec.Affinity = nil
		want := `{"metadata":{"name":"words-x-1","namespace":"ns","labels":{"app":"words","hilbert.dev/ask":"map","hilbert.dev/resource-request":"words"},` +
			`"annotations":{"hilbert.dev/ask-index":"1","hilbert.dev/ask-locality":"` + c.level.String() + `"},` +
			`"ownerReferences":[{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","name":"words","uid":"u1","controller":true,"blockOwnerDeletion":true}]},` +
			`"spec":{"containers":[{"name":"worker","image":"i","resources":{"requests":{"cpu":"2"}}}],"restartPolicy":"Never","schedulerName":"hilbert","priorityClassName":"gold"},"status":{}}`
		p.Kind, p.APIVersion = "", ""
		if got := text(t, p); got != want {
			t.Errorf("the pod is  %s\nwant %s", got, want)
		}
	}
	zone := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}
	o.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{zone, {}}}}}
	p, err := pod(o, &request.Create{Name: "words-x-1", Ask: "map", Index: 1, Level: request.Nodes}, "hilbert")
	if err != nil {
		t.Fatal(err)
	}
	const both = `{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}]}`
	if got := text(t, p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution); got != both {
		t.Errorf("with the template's it requires %s", got)
	}
	if len(o.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) != 2 {
		t.Error("the template was changed")
	}
}

// An ask's priority class is in the place of what the template says of priority, and an ask all of whose nodes are excluded has none: without a term it would have any.
func TestPodOfAnAsk(t *testing.T) {
	o := object(t)
	o.Spec.Template.Spec.Priority, o.Spec.Template.Spec.PriorityClassName = new(int32), "silver"
	o.Spec.Asks[0].Locality.ExcludedNodes = []string{"a", "b"}
	p, err := pod(o, &request.Create{Name: "words-x-1", Ask: "map", Level: request.Nodes}, "hilbert")
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec.Priority != nil || p.Spec.PriorityClassName != "gold" {
		t.Errorf("its priority is %v of %s", p.Spec.Priority, p.Spec.PriorityClassName)
	}
	const none = `{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["-"]}]}]}`
	if got := text(t, p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution); got != none {
		t.Errorf("of no node that is left it requires %s", got)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What contradicts itself is said, and names the field.
func TestProblems(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.ResourceRequestSpec){
		"": func(*v1alpha1.ResourceRequestSpec) {},
		`spec.asks[1].name: "map" is empty or there twice`: func(s *v1alpha1.ResourceRequestSpec) {
			s.Asks = append(s.Asks, v1alpha1.ResourceAsk{Name: "map"})
		},
		"spec.asks[0].count: a request asks for 0 to 1000 containers in all": func(s *v1alpha1.ResourceRequestSpec) { s.Asks[0].Count = 1001 },
		"spec.asks[0].resources: the template has no container other":        func(s *v1alpha1.ResourceRequestSpec) { s.Asks[0].Resources[0].Name = "other" },
	} {
		o := object(t)
		change(&o.Spec)
		if got := read(o).Problem; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
