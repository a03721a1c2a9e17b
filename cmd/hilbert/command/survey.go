package command

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/doctor"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/reach"
)

// surveyTimeout bounds each question of a survey.
const surveyTimeout = 30 * time.Second

// survey reads from the API server what doctor and uninstall judge.
type survey struct {
	target    reach.Target
	namespace string

	inspector *reach.Inspector
	seen      *doctor.Facts
}

// facts reads everything. It fails only if the API server cannot be asked at all; other parts that cannot be read are named in the facts.
func (s *survey) facts(ctx context.Context) (*doctor.Facts, error) {
	var err error
	if s.inspector, err = reach.Reach(s.target); err != nil {
		return nil, err
	}
	f := &doctor.Facts{
		Now: time.Now(), Client: version.Get().Version, Namespace: s.namespace, Unread: map[string]string{}, Served: map[string]bool{},
		Definitions: map[string]doctor.Definition{}, Policies: map[string]bool{},
	}
	s.seen = f
	var kubernetes struct{ GitVersion string }
	if err := s.get(ctx, "/version", &kubernetes); err != nil {
		return nil, err
	}
	f.Kubernetes = kubernetes.GitVersion
	for _, part := range []struct {
		name string
		read func(context.Context) error
	}{
		{doctor.PartServed, s.served},
		{doctor.PartAPIService, s.apiService},
		{doctor.PartMetricsServices, s.metricsServices},
		{doctor.PartHilbertd, s.hilbertd},
		{doctor.PartLease, s.lease},
		{doctor.PartDefinitions, s.definitions},
		{doctor.PartPolicies, s.policies},
		{doctor.PartWorkloads, s.workloads},
		{doctor.PartReports, s.reports},
		{doctor.PartNodes, s.nodes},
	} {
		if err := part.read(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f.Unread[part.name] = err.Error()
		}
	}
	return f, nil
}

func (s *survey) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	return s.inspector.Get(ctx, path, v)
}

// optional is get for what may be absent.
func (s *survey) optional(ctx context.Context, path string, v any) (found bool, err error) {
	err = s.get(ctx, path, v)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (s *survey) served(ctx context.Context) error {
	asked := map[string]bool{}
	for _, feature := range doctor.Features() {
		for _, name := range feature.Served {
			group := name[:strings.LastIndexByte(name, '/')]
			if asked[group] {
				continue
			}
			asked[group] = true
			var list metav1.APIResourceList
			if _, err := s.optional(ctx, "/apis/"+group, &list); err != nil {
				return err
			}
			for i := range list.APIResources {
				s.seen.Served[group+"/"+list.APIResources[i].Name] = true
			}
		}
	}
	return nil
}

func (s *survey) apiService(ctx context.Context) error {
	var a struct {
		Spec struct {
			CABundle              []byte `json:"caBundle"`
			InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify"`
		}
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
	}
	found, err := s.optional(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.hilbert.dev", &a)
	if !found {
		return err
	}
	out := &doctor.APIService{Trusted: len(a.Spec.CABundle) > 0 || a.Spec.InsecureSkipTLSVerify}
	for _, c := range a.Status.Conditions {
		if c.Type == "Available" {
			out.Available, out.Reason, out.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
		}
	}
	s.seen.APIService = out
	return nil
}

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices/"

// metricsServices are the APIServices of upstream's metrics APIs that there are, whosever they are.
func metricsServices(ctx context.Context, get func(ctx context.Context, path string, v any) error) (out []doctor.MetricsService, err error) {
	for _, name := range kubemetrics.APIServices {
		var a struct {
			Spec struct {
				Service *struct{ Namespace, Name string } `json:"service"`
			}
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			}
		}
		if err := get(ctx, apiServices+name, &a); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		m := doctor.MetricsService{Name: name}
		if a.Spec.Service != nil {
			m.Service = a.Spec.Service.Namespace + "/" + a.Spec.Service.Name
		}
		for _, c := range a.Status.Conditions {
			m.Available = m.Available || c.Type == "Available" && c.Status == metav1.ConditionTrue
		}
		out = append(out, m)
	}
	return out, nil
}

func (s *survey) metricsServices(ctx context.Context) (err error) {
	s.seen.MetricsServices, err = metricsServices(ctx, s.get)
	return err
}

func (s *survey) hilbertd(ctx context.Context) error {
	if a := s.seen.APIService; a == nil || !a.Available {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	v, err := s.inspector.Versions(ctx)
	s.seen.Hilbertd = v.Hilbertd
	return err
}

// lease reads the Lease where the chart has it, and where the default configuration does.
func (s *survey) lease(ctx context.Context) error {
	name := spec.Default().LeaderElection
	for _, namespace := range []string{s.namespace, name.Namespace} {
		var l coordinationv1.Lease
		found, err := s.optional(ctx, "/apis/coordination.k8s.io/v1/namespaces/"+url.PathEscape(namespace)+"/leases/"+name.Name, &l)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		out := &doctor.Lease{}
		if l.Spec.HolderIdentity != nil {
			out.Holder = *l.Spec.HolderIdentity
		}
		if l.Spec.RenewTime != nil {
			out.Renewed = l.Spec.RenewTime.Time
		}
		if l.Spec.LeaseDurationSeconds != nil {
			out.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
		s.seen.Lease = out
		return nil
	}
	return nil
}

func (s *survey) definitions(ctx context.Context) error {
	for _, name := range doctor.Definitions() {
		var d struct {
			Spec struct {
				Versions []struct {
					Name   string
					Served bool
				}
			}
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			}
		}
		found, err := s.optional(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, &d)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		var out doctor.Definition
		for _, v := range d.Spec.Versions {
			if v.Served {
				out.Versions = append(out.Versions, v.Name)
			}
		}
		for _, c := range d.Status.Conditions {
			out.Established = out.Established || c.Type == "Established" && c.Status == metav1.ConditionTrue
		}
		s.seen.Definitions[name] = out
	}
	return nil
}

func (s *survey) policies(ctx context.Context) error {
	const at = "/apis/admissionregistration.k8s.io/v1/"
	var policies admissionv1.ValidatingAdmissionPolicyList
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	if err := errors.Join(s.get(ctx, at+"validatingadmissionpolicies", &policies), s.get(ctx, at+"validatingadmissionpolicybindings", &bindings)); err != nil {
		return err
	}
	bound := map[string]bool{}
	for i := range bindings.Items {
		b := &bindings.Items[i].Spec
		for _, action := range b.ValidationActions {
			bound[b.PolicyName] = bound[b.PolicyName] || action == admissionv1.Deny
		}
	}
	for i := range policies.Items {
		if name := policies.Items[i].Name; strings.HasPrefix(name, "hilbert-") {
			s.seen.Policies["ValidatingAdmissionPolicy/"+name] = bound[name]
		}
	}
	var changing admissionv1.MutatingAdmissionPolicyList
	var changingBindings admissionv1.MutatingAdmissionPolicyBindingList
	if found, err := s.optional(ctx, at+"mutatingadmissionpolicies", &changing); !found {
		return err
	}
	if err := s.get(ctx, at+"mutatingadmissionpolicybindings", &changingBindings); err != nil {
		return err
	}
	clear(bound)
	for i := range changingBindings.Items {
		bound[changingBindings.Items[i].Spec.PolicyName] = true
	}
	for i := range changing.Items {
		if name := changing.Items[i].Name; strings.HasPrefix(name, "hilbert-") {
			s.seen.Policies["MutatingAdmissionPolicy/"+name] = bound[name]
		}
	}
	return nil
}

func (s *survey) workloads(ctx context.Context) error {
	at := "/apis/apps/v1/namespaces/" + url.PathEscape(s.namespace) + "/"
	var deployments appsv1.DeploymentList
	var daemonSets appsv1.DaemonSetList
	if err := errors.Join(s.get(ctx, at+"deployments", &deployments), s.get(ctx, at+"daemonsets", &daemonSets)); err != nil {
		return err
	}
	add := func(kind string, o *metav1.ObjectMeta, pod *corev1.PodTemplateSpec, wanted, ready, updated int32) {
		if o.Name != "hilbertd" && !strings.HasPrefix(o.Name, "hilbert-") {
			return
		}
		image := ""
		if len(pod.Spec.Containers) > 0 {
			image = pod.Spec.Containers[0].Image
		}
		s.seen.Workloads = append(s.seen.Workloads, doctor.Workload{
			Kind: kind, Name: o.Name, Image: image, Chart: o.Labels["helm.sh/chart"], Wanted: int(wanted), Ready: int(ready), Updated: int(updated),
		})
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		add("Deployment", &d.ObjectMeta, &d.Spec.Template, wanted, d.Status.ReadyReplicas, d.Status.UpdatedReplicas)
	}
	for i := range daemonSets.Items {
		d := &daemonSets.Items[i]
		add("DaemonSet", &d.ObjectMeta, &d.Spec.Template, d.Status.DesiredNumberScheduled, d.Status.NumberReady, d.Status.UpdatedNumberScheduled)
	}
	return nil
}

func (s *survey) reports(ctx context.Context) error {
	err := reach.EachNodeReport(ctx, s.target, nil, func(c *v1alpha1.CustomNodeResource) error {
		r := doctor.Report{Node: c.Name, Observed: c.Status.ObservedAt.Time}
		for _, condition := range c.Status.Conditions {
			if condition.Type == spec.ConditionAgentReady && condition.Status != metav1.ConditionTrue {
				r.NotReady = condition.Reason + ": " + condition.Message
			}
		}
		s.seen.Reports = append(s.seen.Reports, r)
		return nil
	})
	if errors.Is(err, apiserver.ErrNoDefinition) {
		return nil // the definitions tell
	}
	return err
}

// nodes reads the names of the nodes that ask for an agent.
func (s *survey) nodes(ctx context.Context) error {
	query := url.Values{"labelSelector": {"hilbert.dev/agent=true"}}
	return s.inspector.Each(ctx, "/api/v1/nodes?"+query.Encode(), func(n *metav1.PartialObjectMetadata) { s.seen.Labelled = append(s.seen.Labelled, n.Name) })
}
