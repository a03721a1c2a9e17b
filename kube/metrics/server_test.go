package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/kube/visibility"
)

// whoever is the proxy and the rights of a test: each request comes from somebody, who may do what is listed.
type whoever struct {
	stranger bool
	may      map[string]bool // verb resource/subresource in namespace
	asked    []string
}

func (w *whoever) User(*http.Request, time.Time) (authenticationv1.UserInfo, error) {
	if w.stranger {
		return authenticationv1.UserInfo{}, visibility.Fail(http.StatusUnauthorized, "Unauthorized", "ask through the API server")
	}
	return authenticationv1.UserInfo{Username: "somebody"}, nil
}

func (w *whoever) Identify(context.Context, string) (authenticationv1.UserInfo, error) {
	return authenticationv1.UserInfo{}, errors.New("nobody brings tokens here")
}

func (w *whoever) May(_ context.Context, _ *authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) error {
	ask := fmt.Sprintf("%s %s/%s in %q", what.Verb, what.Resource, what.Subresource, what.Namespace)
	w.asked = append(w.asked, ask)
	if w.may[ask] {
		return nil
	}
	return fmt.Errorf("%w: %s", visibility.ErrForbidden, ask)
}

// kept answers from a store, at a time of its own.
type kept struct {
	store *metrics.Store
	now   time.Time
}

func (k *kept) Pods(namespace string, match func(p *metrics.Pod) bool, n *metrics.Name) ([]metrics.PodValue, error) {
	return k.store.Pods(namespace, match, n, k.now)
}

func (k *kept) Workload(w metrics.Workload, n *metrics.Name) (metrics.Value, error) {
	return k.store.Workload(w, n, k.now)
}

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// serving serves two pods of a Deployment web, which use 1.5 cores and 100 bytes each, and one of another, of which nothing is known.
func serving(t *testing.T, who *whoever) (ask func(path string) (code int, body string, header http.Header)) {
	t.Helper()
	params := metrics.DefaultParams()
	k := &kept{metrics.NewStore(&params), start}
	var c metrics.Collector
	for _, name := range []string{"web-a", "web-b", "db-0"} {
		p := &metrics.Pod{UID: name, Namespace: "shop", Name: name, Node: "n0", Running: start.Add(-time.Hour), Labels: map[string]string{"app": name[:2]}}
		p.Workload = metrics.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}
		if name == "db-0" {
			p.Workload.Kind, p.Workload.Name = "StatefulSet", "db"
		}
		k.store.SetPod(p)
		if name != "db-0" {
			ref := podRef(p)
			c.See(ref, metrics.CPUUse, 1.5, start)
			c.See(ref, metrics.Memory, 100, start)
			c.SeePeak(ref, "app", 700, start)
			c.SeePeak(ref, "log", 20, start)
		}
	}
	k.store.Take("n0", c.Take(start), start)
	mux := http.NewServeMux()
	(&Server{Proxy: who, Rights: who, Values: k, Log: slog.New(slog.DiscardHandler)}).Register(mux)
	return func(path string) (int, string, http.Header) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String(), w.Header()
	}
}

const (
	ofPods   = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/"
	external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/"
)

var everything = map[string]bool{`get */ in ""`: true, `list */ in ""`: true}

func TestAnswers(t *testing.T) {
	ask := serving(t, &whoever{may: everything})
	for _, c := range []struct {
		path string
		code int
		want []string // parts of the body
	}{
		{ofPods + "pods/*/hilbert_cpu_use?labelSelector=app%3Dwe", 200, []string{`"kind":"MetricValueList"`, `"name":"web-a"`, `"name":"web-b"`, `"value":"1500m"`, `"kind":"Pod"`}},
		{ofPods + "pods/web-b/hilbert_memory_peak", 200, []string{`"name":"web-b"`, `"value":"100"`}},
		{ofPods + "deployments.apps/web/hilbert_cpu_use", 200, []string{`"kind":"Deployment"`, `"value":"3"`}},
		{external + "hilbert_cpu_use?labelSelector=workload%3Dweb", 200, []string{`"kind":"ExternalMetricValueList"`, `"value":"3"`, `"workload":"web"`}},
		{external + "hilbert_cpu_use?labelSelector=workload+in+(web),kind%3DDeployment", 200, []string{`"value":"3"`}},
		{external + "hilbert_cpu_use_forecast?labelSelector=workload%3Dweb", 200, []string{`"value":"3"`, `"source":"the live load: less than two periods are known"`}},
		{ofPods + "pods/*/hilbert_cpu_use?labelSelector=app%3Ddb", 404, []string{"not known of any of 1 pods", "no agent has reported it yet"}},
		{ofPods + "pods/*/hilbert_run_delay?labelSelector=app%3Dwe", 404, []string{"no agent has reported it yet"}},
		{external + "hilbert_cpu_use?labelSelector=workload%3Ddb,kind%3DStatefulSet", 404, []string{"StatefulSet shop/db"}},
		{external + "hilbert_cpu_use?labelSelector=workload%3Dnobody", 404, []string{"has no pods that run"}},
		{external + "hilbert_cpu_use", 400, []string{"names no workload"}},
		{external + "hilbert_cpu_use?labelSelector=app%3Dwe", 400, []string{"no metric has the label app"}},
		{external + "hilbert_cpu_use?labelSelector=workload+in+(web,db)", 400, []string{"want the selector"}},
		{external + "hilbert_cpu_use?labelSelector=workload!%3Dweb", 400, []string{"want the selector"}},
		{external + "other?labelSelector=workload%3Dweb", 404, []string{"there is no metric"}},
		{ofPods + "pods/*/hilbert_cpu_use?metricLabelSelector=a%3Db", 400, []string{"has no labels"}},
		{ofPods + "pods/web-b/hilbert_container_memory_peak?metricLabelSelector=container", 200, []string{`"value":"700"`, `"value":"20"`, `"matchLabels":{"container":"log"}`}},
		{ofPods + "pods/web-b/hilbert_container_memory_peak?metricLabelSelector=container%3Dlog", 200, []string{`"items":[{"describedObject":{"kind":"Pod","namespace":"shop","name":"web-b","apiVersion":"v1"},"metric":{"name":"hilbert_container_memory_peak","selector":{"matchLabels":{"container":"log"}}}`, `"value":"20"`}},
		{ofPods + "pods/*/hilbert_container_memory_peak?metricLabelSelector=container%3Dother", 404, []string{"not known of any container", "container=other"}},
		{ofPods + "pods/*/hilbert_container_memory_peak", 400, []string{"container=NAME"}},
		{ofPods + "pods/*/hilbert_container_memory_peak?metricLabelSelector=a%3Db", 400, []string{"has no label a"}},
		{ofPods + "pods/db-0/hilbert_container_memory_peak?metricLabelSelector=container", 404, []string{"no agent has reported it yet"}},
		{ofPods + "deployments.apps/web/hilbert_container_memory_peak?metricLabelSelector=container", 404, []string{"of single containers"}},
		{external + "hilbert_container_memory_peak?labelSelector=workload%3Dweb", 404, []string{"of single containers"}},
		{ofPods + "services/web/hilbert_cpu_use", 404, []string{"ask for pods"}},
		{ofPods + "deployments.apps/*/hilbert_cpu_use", 404, []string{"by name"}},
	} {
		code, body, header := ask(c.path)
		if code != c.code || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s, want %d", c.path, code, body, c.code)
		}
		if header.Get("Retry-After") != "" {
			t.Errorf("%s: clients are told to try again, and would hold up the autoscaler", c.path)
		}
		for _, part := range c.want {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %q in %s", c.path, part, body)
			}
		}
	}
}

func TestRights(t *testing.T) {
	who := &whoever{may: map[string]bool{`get pods/hilbert_cpu_use in "shop"`: true, `list hilbert_cpu_use/ in "shop"`: true}}
	ask := serving(t, who)
	for path, want := range map[string]int{
		ofPods + "pods/*/hilbert_cpu_use?labelSelector=app%3Dwe": 200, external + "hilbert_cpu_use?labelSelector=workload%3Dweb": 200,
		ofPods + "pods/*/hilbert_memory_peak?labelSelector=app%3Dwe": 403, external + "hilbert_run_delay?labelSelector=workload%3Dweb": 403,
		ofPods + "deployments.apps/web/hilbert_cpu_use": 403,
	} {
		if code, body, _ := ask(path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	who.stranger = true
	if code, body, _ := ask(external + "hilbert_cpu_use?labelSelector=workload%3Dweb"); code != 401 {
		t.Errorf("past the proxy: %d %s", code, body)
	}
	for _, path := range []string{"/apis", "/apis/external.metrics.k8s.io", "/apis/external.metrics.k8s.io/v1beta1", "/apis/custom.metrics.k8s.io/v1beta2"} {
		if code, body, _ := ask(path); code != 200 || !json.Valid([]byte(body)) {
			t.Errorf("discovery of %s: %d %s", path, code, body)
		}
	}
}

// TestAutoscalersCauseOneReview: who may ask everything is asked about once, whatever is asked.
func TestAutoscalersCauseOneReview(t *testing.T) {
	who := &whoever{may: everything}
	ask := serving(t, who)
	ask(ofPods + "pods/*/hilbert_cpu_use?labelSelector=app%3Dwe")
	ask(ofPods + "deployments.apps/web/hilbert_cpu_use")
	if len(who.asked) != 2 || who.asked[0] != who.asked[1] {
		t.Errorf("asked %v", who.asked)
	}
}
