package parse

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// TestMayEvict: as many pods may be named as the bound says; one more, and none is evicted.
func TestMayEvict(t *testing.T) {
	t.Parallel()
	names := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("u%d", i)
		}
		return strings.Join(list, ",")
	}
	for text, want := range map[string]string{
		"": "[]", "a": "[a]", "a, b": "[a b]", names(spec.MaxMayEvict): "[" + strings.ReplaceAll(names(spec.MaxMayEvict), ",", " ") + "]",
		names(spec.MaxMayEvict + 1): "[]", strings.Repeat(",", 1<<16): "[]",
	} {
		r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Annotations: map[string]string{spec.AnnotationMayEvict: text}}}
		r.Spec.Template.Spec.SchedulerName = "hilbert"
		seen, ok := NewParser("hilbert", nil).Reservation(r, func(string) (int32, bool) { return 0, true })
		if !ok || fmt.Sprint(seen.MayEvict) != want {
			t.Errorf("%.40q: it is ours: %v, and may evict %v, want %s", text, ok, seen, want)
		}
	}
}
