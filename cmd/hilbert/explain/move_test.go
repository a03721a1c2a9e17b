package explain

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
)

// TestMoveOf: a Reservation of the controller says which pod is moved, why, and what that waits for; one that somebody else gave our annotation says nothing.
func TestMoveOf(t *testing.T) {
	const text = `
metadata:
  namespace: shop
  name: hilbert-move-u1
  annotations: {hilbert.dev/move-of: '{"uid":"u1","name":"web-0","workload":"web","from":"n1","to":"n2","reason":"Drain","why":"n1 is to be emptied"}'}
spec: {count: 1}
`
	for name, c := range map[string]struct {
		change func(r *v1alpha1.Reservation)
		want   string // nothing: it keeps no target
	}{
		"new":       {func(*v1alpha1.Reservation) {}, "A move of pod web-0 from n1 to n2 is under way (Drain): n1 is to be emptied. It waits for its target to be reserved; nothing is evicted before."},
		"reserved":  {place("Reserved"), "Its target is reserved; the eviction is asked for as the budget and disruption budgets allow."},
		"consumed":  {place("Consumed"), "The replacement has its place."},
		"lost":      {place("Lost"), "Its target was lost."},
		"another's": {func(r *v1alpha1.Reservation) { r.Name = "mine" }, ""},
		"no move":   {func(r *v1alpha1.Reservation) { r.Annotations = nil }, ""},
		"another namespace": {func(r *v1alpha1.Reservation) {
			r.Annotations["hilbert.dev/move-of"] = `{"uid":"u1","name":"../../kube-system/pods/x"}`
		}, ""},
	} {
		var r v1alpha1.Reservation
		if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		c.change(&r)
		got := ""
		if m := moveOf(&r); m != nil {
			got = m.String()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func place(state string) func(*v1alpha1.Reservation) {
	return func(r *v1alpha1.Reservation) { r.Status.Places = []v1alpha1.ReservedPlace{{State: state}} }
}
