package optional

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/standin"
)

// The preferred version of several is the one that is watched.
func TestSurveyPrefersTheNewest(t *testing.T) {
	s := standin.New(t)
	own := apiserver.ForPurpose(s.Connection(), "test", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		t.Fatal(err)
	}
	surveyor, err := apiserver.NewSurveyor(own, shared)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Survey(t.Context(), surveyor); err != nil || got != (APIs{}) {
		t.Errorf("nothing is offered: %+v, %v", got, err)
	}
	for _, version := range []string{"v1alpha2", "v1alpha3", "v1beta1"} {
		s.Offer(standin.PodGroups, version)
		if got, err := Survey(t.Context(), surveyor); err != nil || got.PodGroups != version {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
	s.Offer(standin.PodGroups, "v1beta2")
	s.Offer(standin.SigsPodGroups, "v1alpha1")
	s.Offer(standin.Queues, "v1alpha1")
	s.Offer(standin.NodeReports, "v1alpha1")
	if got, err := Survey(t.Context(), surveyor); err != nil || got != (APIs{SigsPodGroups: "v1alpha1", Queues: "v1alpha1", Reports: "v1alpha1"}) {
		t.Errorf("%+v, %v", got, err)
	}
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusForbidden)
		return true
	})
	if _, err := Survey(t.Context(), surveyor); err == nil {
		t.Error("what is forbidden is taken for missing")
	}
}
