package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// What the API server says of who offers GPUs. What it does not say is not known, and a server without ResourceSlices has none.
func TestGPUOffers(t *testing.T) {
	const slices = "/apis/resource.k8s.io/v1/resourceslices"
	node := `{"status":{"capacity":{"cpu":"7910m","nvidia.com/gpu":"8"},"allocatable":{"nvidia.com/gpu":"0","nvidia.com/mig-1g.5gb":"2"}}}`
	for name, c := range map[string]struct {
		answers map[string]string // a path; else it is not there
		refuse  string            // a path that may not be asked for
		want    Offers
	}{
		"no node":    {nil, "", Offers{}},
		"forbidden":  {map[string]string{"/api/v1/nodes/n1": node}, slices, Offers{NodeKnown: true}},
		"no slices":  {map[string]string{"/api/v1/nodes/n1": node}, "", Offers{NodeKnown: true, SlicesKnown: true}},
		"DRA driver": {map[string]string{"/api/v1/nodes/n1": node, slices: `{"items":[{"spec":{"devices":[{},{}]}},{"spec":{"devices":[{}]}}]}`}, "", Offers{NodeKnown: true, SlicesKnown: true, Slices: 3}},
		"older server": {
			map[string]string{"/api/v1/nodes/n1": node, "/apis/resource.k8s.io/v1beta1/resourceslices": `{"items":[{"spec":{"devices":[{}]}}]}`},
			"",
			Offers{NodeKnown: true, SlicesKnown: true, Slices: 1},
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if selector := r.URL.Query().Get("fieldSelector"); r.URL.Path == slices && selector != "spec.nodeName=n1,spec.driver=gpu.nvidia.com" {
				t.Errorf("all slices are asked for: %q", selector)
			}
			switch text := c.answers[r.URL.Path]; {
			case r.URL.Path == c.refuse:
				w.WriteHeader(http.StatusForbidden)
			case text == "":
				w.WriteHeader(http.StatusNotFound)
			default:
				_, _ = w.Write([]byte(text))
			}
		}))
		o, err := NewGPUOffers(&apiserver.Connection{Host: s.URL}, "n1", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.Ask(t.Context())
		if (err == nil) != c.want.SlicesKnown {
			t.Errorf("%s: %v", name, err)
		}
		if got.NodeKnown != c.want.NodeKnown || got.SlicesKnown != c.want.SlicesKnown || got.Slices != c.want.Slices {
			t.Errorf("%s: %+v", name, got)
		}
		if got.NodeKnown && (got.Offered["nvidia.com/gpu"] != 8 || got.Offered["nvidia.com/mig-1g.5gb"] != 2 || got.Offered["cpu"] == 0) {
			t.Errorf("%s: %v", name, got.Offered)
		}
		o.Close()
		s.Close()
	}
}
