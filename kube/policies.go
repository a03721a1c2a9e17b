package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	admissionv1client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	admission "hilbert.dev/hilbert/deploy/policies"
	"hilbert.dev/hilbert/kube/apiserver"
)

// promiseFiles are the files of deploy/policies without which promises could be forged: who may write placements, what pods and their updates may say, whose
// report an agent writes, and how reclaimed pods ask. All of them are validating policies, which every API server of today has.
var promiseFiles = []string{"binding.yaml", "pod-create.yaml", "pod-update.yaml", "cnr-own-node.yaml", "reclaimed-check.yaml"}

// policySet is validating admission policies and their bindings, by name.
type policySet struct {
	policies map[string]*admissionv1.ValidatingAdmissionPolicy
	bindings map[string]*admissionv1.ValidatingAdmissionPolicyBinding
}

// promisePolicies reads promiseFiles.
func promisePolicies() (policySet, error) {
	set := policySet{make(map[string]*admissionv1.ValidatingAdmissionPolicy), make(map[string]*admissionv1.ValidatingAdmissionPolicyBinding)}
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		return set, fmt.Errorf("know the kinds of admission policies: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, name := range promiseFiles {
		text, err := fs.ReadFile(admission.Files, name)
		if err != nil {
			return set, err
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				return set, fmt.Errorf("deploy/policies/%s: %w", name, err)
			}
			switch o := object.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				set.policies[o.Name] = o
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				set.bindings[o.Name] = o
			default:
				return set, fmt.Errorf("deploy/policies/%s: a %T cannot keep promises true", name, object)
			}
		}
	}
	return set, nil
}

// missing says which of the policies is not in force as it is wanted; empty: all are. Names of accounts may differ, which are a cluster's own: where
// hilbertd's account is named others may be, and match conditions need only be there.
func (want *policySet) missing(have *policySet) string {
	var out []string
	for name, policy := range want.policies {
		if got := have.policies[name]; got == nil {
			out = append(out, "ValidatingAdmissionPolicy "+name+" is not there")
		} else if what := policyDiffers(&policy.Spec, &got.Spec); what != "" {
			out = append(out, "ValidatingAdmissionPolicy "+name+" has another "+what)
		}
	}
	for name, binding := range want.bindings {
		got := have.bindings[name]
		switch {
		case got == nil:
			out = append(out, "ValidatingAdmissionPolicyBinding "+name+" is not there")
		case got.Spec.PolicyName != binding.Spec.PolicyName || !slices.Contains(got.Spec.ValidationActions, admissionv1.Deny):
			out = append(out, "ValidatingAdmissionPolicyBinding "+name+" does not deny by "+binding.Spec.PolicyName)
		case narrowed(got.Spec.MatchResources):
			out = append(out, "ValidatingAdmissionPolicyBinding "+name+" is for some requests only")
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// policyDiffers names the part of a policy that is not as it is wanted.
func policyDiffers(want, got *admissionv1.ValidatingAdmissionPolicySpec) string {
	sameRule := func(a, b admissionv1.NamedRuleWithOperations) bool {
		return slices.Equal(a.Operations, b.Operations) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.APIVersions, b.APIVersions) && slices.Equal(a.Resources, b.Resources)
	}
	sameValidation := func(a, b admissionv1.Validation) bool { return sameExpression(a.Expression, b.Expression) }
	sameVariable := func(a, b admissionv1.Variable) bool {
		return a.Name == b.Name && sameExpression(a.Expression, b.Expression)
	}
	switch {
	case got.FailurePolicy != nil && *got.FailurePolicy != admissionv1.Fail:
		return "failurePolicy"
	case got.MatchConstraints == nil || !slices.EqualFunc(want.MatchConstraints.ResourceRules, got.MatchConstraints.ResourceRules, sameRule) || narrowed(got.MatchConstraints):
		return "matchConstraints"
	case len(want.MatchConditions) != len(got.MatchConditions):
		return "matchConditions"
	case !slices.EqualFunc(want.Variables, got.Variables, sameVariable):
		return "variables"
	case !slices.EqualFunc(want.Validations, got.Validations, sameValidation):
		return "validations"
	}
	return ""
}

// sameExpression reports whether two expressions are the same, but for who may write placements.
func sameExpression(want, got string) bool {
	before, after, placer := strings.Cut(want, "'"+admission.Placer+"'")
	return want == got || placer && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)
}

// narrowed reports whether some requests are left out.
func narrowed(m *admissionv1.MatchResources) bool {
	empty := func(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 }
	return m != nil && (!empty(m.NamespaceSelector) || !empty(m.ObjectSelector) || len(m.ExcludeResourceRules) > 0)
}

// policyGuard has promises withheld while the admission policies that keep them true are not seen in force: else whoever may create a pod could promise himself
// what is others'. It asks for all policies of the cluster, which are few, at each survey.
type policyGuard struct {
	client *admissionv1client.AdmissionregistrationV1Client
	want   policySet
	fresh  *freshness
}

func newPolicyGuard(c *apiserver.Connection, shared *http.Client, fresh *freshness) (*policyGuard, error) {
	client, clientErr := admissionv1client.NewForConfigAndClient(c, shared)
	want, err := promisePolicies()
	return &policyGuard{client, want, fresh}, errors.Join(clientErr, err)
}

// look finds out whether the policies are in force. An error means that it is not known: then what was known before holds.
func (g *policyGuard) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiserver.SurveyTimeout)
	defer cancel()
	policies, policiesErr := g.client.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	bindings, bindingsErr := g.client.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	switch {
	case policiesErr != nil:
		return g.unlisted("validatingadmissionpolicies", policiesErr)
	case bindingsErr != nil:
		return g.unlisted("validatingadmissionpolicybindings", bindingsErr)
	}
	have := policySet{make(map[string]*admissionv1.ValidatingAdmissionPolicy), make(map[string]*admissionv1.ValidatingAdmissionPolicyBinding)}
	for i := range policies.Items {
		have.policies[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range bindings.Items {
		have.bindings[bindings.Items[i].Name] = &bindings.Items[i]
	}
	return g.fresh.guard(g.want.missing(&have))
}

// unlisted judges a failed list: where hilbertd may not look, or there is no such API, the policies are not seen.
func (g *policyGuard) unlisted(resource string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return g.fresh.guard(resource + " cannot be listed: " + err.Error())
	}
	return fmt.Errorf("list %s: %w", resource, err)
}
