package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/kube/visibility"
)

// The groups that are served.
var (
	Custom   = customv1beta2.SchemeGroupVersion
	External = externalv1beta1.SchemeGroupVersion
)

// Values answers. The errors of its methods are *metrics.NoData where there is no answer now.
type Values interface {
	Pods(namespace string, match func(p *metrics.Pod) bool, n *metrics.Name) ([]metrics.PodValue, error)
	Workload(w metrics.Workload, n *metrics.Name) (metrics.Value, error)
}

// User says whom a request comes from; visibility.FrontProxy does.
type User interface {
	User(r *http.Request, now time.Time) (authenticationv1.UserInfo, error)
}

// Server serves both groups to kube-apiserver's proxy.
type Server struct {
	Proxy  User
	Rights visibility.Rights
	Values Values
	Log    *slog.Logger
}

// workloads are the kinds that pods belong to, by the resource's name in paths.
var workloads = map[string]schema.GroupVersionKind{
	"deployments.apps":  {Group: "apps", Version: "v1", Kind: "Deployment"},
	"statefulsets.apps": {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"daemonsets.apps":   {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	"replicasets.apps":  {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	"jobs.batch":        {Group: "batch", Version: "v1", Kind: "Job"},
}

// Register makes a mux serve the groups. Discovery is constant: kube-apiserver asks for it to learn whether this process lives.
func (s *Server) Register(mux *http.ServeMux) {
	all := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, g := range []struct {
		of        schema.GroupVersion
		resources []metav1.APIResource
	}{{Custom, customResources()}, {External, externalResources()}} {
		version := metav1.GroupVersionForDiscovery{GroupVersion: g.of.String(), Version: g.of.Version}
		group := metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: g.of.Group,
			Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}
		all.Groups = append(all.Groups, group)
		mux.HandleFunc("GET /apis/"+g.of.Group, constant(group))
		mux.HandleFunc("GET /apis/"+g.of.String(), constant(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: g.of.String(), APIResources: g.resources,
		}))
	}
	mux.HandleFunc("GET /apis", constant(all))
	mux.HandleFunc("GET /apis/"+Custom.String()+"/namespaces/{namespace}/{resource}/{name}/{metric}", s.answering(s.custom))
	mux.HandleFunc("GET /apis/"+External.String()+"/namespaces/{namespace}/{metric}", s.answering(s.external))
}

func constant(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { visibility.WriteJSON(w, http.StatusOK, v) }
}

func customResources() (out []metav1.APIResource) {
	for _, n := range metrics.Names {
		var on []string
		if n.PerPod {
			on = append(on, "pods")
		}
		for resource := range workloads {
			if !n.OfContainers {
				on = append(on, resource)
			}
		}
		slices.Sort(on)
		for _, resource := range on {
			out = append(out, metav1.APIResource{Name: resource + "/" + n.Name, Namespaced: true, Kind: "MetricValueList", Verbs: metav1.Verbs{"get"}})
		}
	}
	return out
}

func externalResources() (out []metav1.APIResource) {
	for _, n := range metrics.Names {
		if n.OfContainers {
			continue
		}
		out = append(out, metav1.APIResource{Name: n.Name, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}})
	}
	return out
}

// answering checks who asks and whether they may, and writes the answer.
func (s *Server) answering(answer func(r *http.Request, n *metrics.Name) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.answer(r, answer)
		if err == nil {
			visibility.WriteJSON(w, http.StatusOK, v)
			return
		}
		if none, ok := errors.AsType[*metrics.NoData](err); ok {
			err = visibility.Fail(http.StatusNotFound, metav1.StatusReasonNotFound, none.Message)
		}
		visibility.Refuse(w, err, func(err error) { s.Log.Error("cannot answer", "path", r.URL.Path, "err", err) })
	}
}

func (s *Server) answer(r *http.Request, answer func(r *http.Request, n *metrics.Name) (any, error)) (any, error) {
	user, err := s.Proxy.User(r, time.Now())
	if err != nil {
		return nil, err
	}
	if err := s.may(r, &user); err != nil {
		return nil, err
	}
	n, ok := metrics.Find(r.PathValue("metric"))
	if !ok {
		return nil, visibility.Fail(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("there is no metric %q; kubectl get --raw /apis/%s lists them", r.PathValue("metric"), External))
	}
	return answer(r, &n)
}

// may is nil if the user may ask this. HPA may ask everything, and so one answer in ten seconds serves for all that it asks.
func (s *Server) may(r *http.Request, user *authenticationv1.UserInfo) error {
	asks := authorizationv1.ResourceAttributes{
		Group: External.Group, Version: External.Version, Namespace: r.PathValue("namespace"), Verb: "list", Resource: r.PathValue("metric"),
	}
	if resource := r.PathValue("resource"); resource != "" {
		asks = authorizationv1.ResourceAttributes{ // as kube-apiserver reads such a path
			Group: Custom.Group, Version: Custom.Version, Namespace: r.PathValue("namespace"), Verb: "get", Resource: resource, Subresource: r.PathValue("metric"), Name: r.PathValue("name"),
		}
	}
	everything := authorizationv1.ResourceAttributes{Group: asks.Group, Version: asks.Version, Verb: asks.Verb, Resource: "*"}
	err := s.Rights.May(r.Context(), user, everything)
	if errors.Is(err, visibility.ErrForbidden) {
		err = s.Rights.May(r.Context(), user, asks)
	}
	return visibility.Reviewed(err, s.Log)
}

func badRequest(format string, args ...any) error {
	return visibility.Fail(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf(format, args...))
}

// custom answers for pods, or for the workload that an object is.
func (s *Server) custom(r *http.Request, n *metrics.Name) (any, error) {
	namespace, resource, name := r.PathValue("namespace"), r.PathValue("resource"), r.PathValue("name")
	query := r.URL.Query()
	containers, err := containersOf(query.Get("metricLabelSelector"), n)
	if err != nil {
		return nil, err
	}
	out := customv1beta2.MetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: Custom.String(), Kind: "MetricValueList"}, Items: []customv1beta2.MetricValue{}}
	if resource == "pods" {
		selector, err := labels.Parse(query.Get("labelSelector"))
		if err != nil {
			return nil, badRequest("labelSelector: %v", err)
		}
		values, err := s.Values.Pods(namespace, func(p *metrics.Pod) bool {
			return name == "*" && selector.Matches(labels.Set(p.Labels)) || p.Name == name
		}, n)
		if err != nil {
			return nil, err
		}
		for i := range values {
			item := customValue(&values[i].Value, n, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, namespace, values[i].Pod)
			if n.OfContainers {
				of := map[string]string{LabelContainer: values[i].Container}
				if !containers.Matches(labels.Set(of)) {
					continue
				}
				item.Metric.Selector = &metav1.LabelSelector{MatchLabels: of}
			}
			out.Items = append(out.Items, item)
		}
		if len(out.Items) == 0 {
			return nil, &metrics.NoData{Message: fmt.Sprintf("%s is not known of any container that the metric's selector %s selects", n.Name, containers)}
		}
		return out, nil
	}
	kind, ok := workloads[resource]
	if !ok || name == "*" {
		return nil, visibility.Fail(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s/%s: ask for pods, or for one of deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps and jobs.batch by name", resource, name))
	}
	v, err := s.Values.Workload(metrics.Workload{Namespace: namespace, Kind: kind.Kind, Name: name}, n)
	if err != nil {
		return nil, err
	}
	out.Items = append(out.Items, customValue(&v, n, kind, namespace, name))
	return out, nil
}

// external answers for the workload that the selector names.
func (s *Server) external(r *http.Request, n *metrics.Name) (any, error) {
	w, err := workloadOfSelector(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	w.Namespace = r.PathValue("namespace")
	v, err := s.Values.Workload(w, n)
	if err != nil {
		return nil, err
	}
	return externalv1beta1.ExternalMetricValueList{
		TypeMeta: metav1.TypeMeta{APIVersion: External.String(), Kind: "ExternalMetricValueList"},
		Items:    []externalv1beta1.ExternalMetricValue{externalValue(&v, n, w)},
	}, nil
}
