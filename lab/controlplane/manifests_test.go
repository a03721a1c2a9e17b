package controlplane

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestInstallAccessKnowsItsKinds: what is neither access nor a workload is refused, so that no manifest is installed by half in silence.
func TestInstallAccessKnowsItsKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"Deployment": "",
		"Secret":     "the Secret x is neither about access nor a workload",
		"":           "neither about access nor a workload",
	} {
		err := createAccess(t.Context(), nil, []byte(`{"kind":"`+kind+`","metadata":{"name":"x"}}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", kind, err, want)
		}
	}
}

// TestAPIServiceWithoutService: kube-apiserver would answer for such a one itself, and a test would not notice that it asks nobody else.
func TestAPIServiceWithoutService(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"group": "g"}}}
	if err := replaceAPIService(t.Context(), nil, o, 1, nil); err == nil || !strings.Contains(err.Error(), "it names no Service") {
		t.Errorf("%v, want it refused", err)
	}
}
