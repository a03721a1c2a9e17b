package process

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/visibility"
)

// metricsService is the Service by which kube-apiserver reaches the stand-in for metrics-server.
const metricsService = "metrics"

// serveMetrics stands in for metrics-server as it is in clusters: an aggregated API, which says what pods use and stores nothing. It counts how often it is asked.
func (c *cluster) serveMetrics(pods func(namespace string) []*corev1.Pod, use func(*corev1.Pod) (cpu, memory int64)) *atomic.Int64 {
	c.t.Helper()
	c.must(c.plane.RouteToLocalhost(c.t.Context(), namespace, metricsService))
	certificate, key, err := visibility.MakeCertificate(metricsService+"."+namespace+".svc", time.Now(), time.Hour)
	c.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	c.must(err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	c.must(err)
	asked := new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+usePath, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(usePath, "/apis/"), APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}},
		}})
	})
	mux.HandleFunc("GET "+usePath+"/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		items := []any{}
		for _, p := range pods(r.PathValue("namespace")) {
			cpu, memory := use(p)
			items = append(items, metricsOf(p.Name, cpu, memory))
		}
		answer(w, map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": items})
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	c.t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			c.t.Error(err)
		}
	})
	c.must(c.plane.InstallAPIServices(c.t.Context(), []byte(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: `+metricsService+`, namespace: `+namespace+`}
`), listener.Addr().(*net.TCPAddr).Port, certificate))
	c.wait("PodMetrics are served", func() bool { return c.send("GET", usePath+"/namespaces/"+namespace+"/pods", nil, nil) == nil })
	return asked
}

// metricsOf are the PodMetrics of a pod that uses millicores and MiB.
func metricsOf(pod string, cpu, memory int64) map[string]any {
	return map[string]any{
		"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": map[string]any{"name": pod}, "timestamp": time.Now().UTC().Format(time.RFC3339), "window": "10s",
		"containers": []any{map[string]any{"name": "app", "usage": map[string]any{"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", memory)}}},
	}
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // who asked has gone
}
