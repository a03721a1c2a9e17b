package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/cmd/hilbert/doctor"
	"hilbert.dev/hilbert/cmd/hilbert/uninstall"
	manifests "hilbert.dev/hilbert/deploy/uninstall"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/reach"
)

// removerPoll is how often what is awaited is asked for.
const removerPoll = time.Second

// remover lists and removes what is installed.
type remover struct {
	target    reach.Target
	namespace string
	timeout   time.Duration
	progress  io.Writer

	inspector *reach.Inspector
}

// places are where objects of Hilbert's lie. %s is the namespace.
var places = []struct{ kind, path string }{
	{"APIService", "/apis/apiregistration.k8s.io/v1/apiservices"},
	{"Deployment", "/apis/apps/v1/namespaces/%s/deployments"},
	{"DaemonSet", "/apis/apps/v1/namespaces/%s/daemonsets"},
	{"Job", "/apis/batch/v1/namespaces/%s/jobs"},
	{"PodDisruptionBudget", "/apis/policy/v1/namespaces/%s/poddisruptionbudgets"},
	{"Service", "/api/v1/namespaces/%s/services"},
	{"ConfigMap", "/api/v1/namespaces/%s/configmaps"},
	{"Secret", "/api/v1/namespaces/%s/secrets"},
	{"ServiceAccount", "/api/v1/namespaces/%s/serviceaccounts"},
	{"ResourceQuota", "/api/v1/namespaces/%s/resourcequotas"},
	{"NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies"},
	{"Lease", "/apis/coordination.k8s.io/v1/namespaces/%s/leases"},
	{"Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles"},
	{"RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings"},
	{"RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"},
	{"ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"},
	{"ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"},
	{"ValidatingAdmissionPolicy", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"},
	{"ValidatingAdmissionPolicyBinding", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"},
	{"MutatingAdmissionPolicy", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"},
	{"MutatingAdmissionPolicyBinding", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"},
	{"FlowSchema", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"},
	{"PriorityLevelConfiguration", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"},
	{"PodMonitor", "/apis/monitoring.coreos.com/v1/namespaces/%s/podmonitors"},
	{"ServiceMonitor", "/apis/monitoring.coreos.com/v1/namespaces/%s/servicemonitors"},
	{"PrometheusRule", "/apis/monitoring.coreos.com/v1/namespaces/%s/prometheusrules"},
	{"Certificate", "/apis/cert-manager.io/v1/namespaces/%s/certificates"},
	{"Issuer", "/apis/cert-manager.io/v1/namespaces/%s/issuers"},
	{"CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"},
}

// installed says whether an object is one that deploy/ or the chart makes.
func installed(kind, name string) bool {
	switch kind {
	case "APIService":
		return name == "v1alpha1.visibility.hilbert.dev"
	case "CustomResourceDefinition":
		return slices.Contains(doctor.Definitions(), name)
	case "Secret":
		if release, ok := strings.CutPrefix(name, "sh.helm.release.v1."); ok {
			return strings.HasPrefix(release, "hilbert.v") || strings.HasPrefix(release, "hilbert-crds.v")
		}
	}
	return name == "hilbert" || name == "hilbertd" || strings.HasPrefix(name, "hilbert-") || strings.HasPrefix(name, "hilbertd-")
}

// inventory lists what is there. A kind that the API server does not serve has no objects; one that may not be read is an error, for a plan without it would be wrong.
func (r *remover) inventory(ctx context.Context) (*uninstall.Facts, error) {
	var err error
	if r.inspector, err = reach.Reach(r.target); err != nil {
		return nil, err
	}
	f := &uninstall.Facts{Namespace: r.namespace}
	for _, place := range places {
		at := strings.ReplaceAll(place.path, "%s", url.PathEscape(r.namespace))
		if err := r.list(ctx, at, func(o *metav1.PartialObjectMetadata) {
			if installed(place.kind, o.Name) {
				f.Objects = append(f.Objects, uninstall.Object{Kind: place.kind, Namespace: o.Namespace, Name: o.Name, Path: at + "/" + url.PathEscape(o.Name)})
			}
		}); err != nil {
			return nil, fmt.Errorf("list %s: %w", place.kind, err)
		}
	}
	metrics, err := metricsServices(ctx, r.inspector.Get)
	if err != nil {
		return nil, err
	}
	f.Objects = append(f.Objects, ownMetricsServices(metrics, r.namespace)...)
	const waiting = "/api/v1/pods?fieldSelector=spec.schedulerName%3Dhilbert%2Cspec.nodeName%3D%2Cstatus.phase%3DPending"
	if err := r.list(ctx, waiting, func(*metav1.PartialObjectMetadata) { f.Waiting++ }); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return f, nil
}

// ownMetricsServices are those that lead to the role metrics; others' are left.
func ownMetricsServices(list []doctor.MetricsService, namespace string) (out []uninstall.Object) {
	for _, m := range list {
		if m.Service == namespace+"/"+kubemetrics.ServiceName {
			out = append(out, uninstall.Object{Kind: "APIService", Name: m.Name, Path: apiServices + m.Name})
		}
	}
	return out
}

// list visits all objects at a path; a path that is not served has none.
func (r *remover) list(ctx context.Context, path string, visit func(*metav1.PartialObjectMetadata)) error {
	err := r.inspector.Each(ctx, path, visit)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// delete deletes an object, and what it owns before it; of workloads it waits until their pods have ended.
func (r *remover) delete(ctx context.Context, o uninstall.Object) error {
	err := r.inspector.Send(ctx, http.MethodDelete, o.Path+"?propagationPolicy=Foreground", nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || o.Kind != "Deployment" && o.Kind != "DaemonSet" {
		return err
	}
	return r.await(ctx, "its pods have not ended", func(ctx context.Context) (bool, string, error) {
		var left metav1.PartialObjectMetadata
		err := r.inspector.Get(ctx, o.Path, &left)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "", err
	})
}

func (r *remover) daemonSet(name string) string {
	return "/apis/apps/v1/namespaces/" + url.PathEscape(r.namespace) + "/daemonsets/" + name
}

// startCleanup makes the DaemonSet that cleans the nodes, with what the agents have.
func (r *remover) startCleanup(ctx context.Context) error {
	var agent appsv1.DaemonSet
	if err := r.inspector.Get(ctx, r.daemonSet(uninstall.Agent), &agent); err != nil {
		return err
	}
	d, err := cleanupOf(&agent)
	if err != nil {
		return err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return r.inspector.Send(ctx, http.MethodPost, strings.TrimSuffix(r.daemonSet(""), "/"), body)
}

// cleanupOf is the cleanup for the nodes, image, configuration and folders that an agent has.
func cleanupOf(agent *appsv1.DaemonSet) (*appsv1.DaemonSet, error) {
	d := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(manifests.Cleanup, d); err != nil {
		return nil, fmt.Errorf("read deploy/uninstall/cleanup.yaml: %w", err)
	}
	from, to := &agent.Spec.Template.Spec, &d.Spec.Template.Spec
	if len(from.Containers) == 0 {
		return nil, fmt.Errorf("the DaemonSet %s has no container", agent.Name)
	}
	d.Namespace = agent.Namespace
	to.ImagePullSecrets, to.NodeSelector, to.Tolerations, to.Affinity = from.ImagePullSecrets, from.NodeSelector, from.Tolerations, from.Affinity
	to.PriorityClassName = from.PriorityClassName
	for _, containers := range [][]corev1.Container{to.InitContainers, to.Containers} {
		for i := range containers {
			containers[i].Image, containers[i].ImagePullPolicy = from.Containers[0].Image, from.Containers[0].ImagePullPolicy
		}
	}
	for i := range to.Volumes {
		if at := slices.IndexFunc(from.Volumes, func(v corev1.Volume) bool { return v.Name == to.Volumes[i].Name }); at >= 0 {
			to.Volumes[i] = from.Volumes[at]
		}
	}
	return d, nil
}

// awaitCleanup waits until all nodes are clean.
func (r *remover) awaitCleanup(ctx context.Context) error {
	return r.await(ctx, "not all nodes are clean; kubectl -n "+r.namespace+" logs daemonset/"+uninstall.Cleanup+" -c cleanup says why", func(ctx context.Context) (bool, string, error) {
		var d appsv1.DaemonSet
		if err := r.inspector.Get(ctx, r.daemonSet(uninstall.Cleanup), &d); err != nil {
			return false, "", err
		}
		seen := d.Status.ObservedGeneration >= d.Generation && d.Status.ObservedGeneration > 0
		return seen && d.Status.NumberReady >= d.Status.DesiredNumberScheduled, fmt.Sprintf("%d of %d nodes are clean", d.Status.NumberReady, d.Status.DesiredNumberScheduled), nil
	})
}

// await asks until something is so, and tells what is new.
func (r *remover) await(ctx context.Context, otherwise string, done func(context.Context) (ok bool, state string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	last := ""
	for {
		ok, state, err := done(ctx)
		if state != "" && state != last {
			fmt.Fprintln(r.progress, state)
			last = state
		}
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(removerPoll):
		case <-ctx.Done():
			return fmt.Errorf("after %s: %s: %w", r.timeout, otherwise, ctx.Err())
		}
	}
}
