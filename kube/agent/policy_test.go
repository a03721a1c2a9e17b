package agent

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	admission "hilbert.dev/hilbert/deploy/policies"
)

// documents decodes a file of several; an unknown field fails.
func documents(t *testing.T, text string) (out []runtime.Object) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(text, "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, object)
	}
	return out
}

// The policy covers every way in which Permissions lets an agent write a CustomNodeResource, fails closed, and is bound. What its
// expressions do is tried on a real API server, in the lab.
func TestOwnNodePolicy(t *testing.T) {
	text, err := fs.ReadFile(admission.Files, "cnr-own-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, string(text))
	policy, isPolicy := objects[0].(*admissionv1.ValidatingAdmissionPolicy)
	binding, isBinding := objects[1].(*admissionv1.ValidatingAdmissionPolicyBinding)
	if !isPolicy || !isBinding || len(objects) != 2 {
		t.Fatalf("objects %v", objects)
	}
	if *policy.Spec.FailurePolicy != admissionv1.Fail || binding.Spec.PolicyName != policy.Name || binding.Spec.MatchResources != nil ||
		!slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("binding %+v of %s", binding.Spec, policy.Name)
	}
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	operations := map[string]admissionv1.OperationType{"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update}
	for _, p := range Permissions {
		if p.Group != v1alpha1.Group {
			continue
		}
		for _, verb := range p.Verbs {
			if !slices.Contains([]string{"create", "update", "patch", "delete"}, verb) {
				continue
			}
			if !slices.Contains(rule.APIGroups, p.Group) || !slices.Contains(rule.Resources, p.Resource) || !slices.Contains(rule.Operations, operations[verb]) {
				t.Errorf("%s %s is not covered", verb, p.Resource)
			}
		}
	}
	if !slices.Contains(rule.APIVersions, "*") {
		t.Error("another version is a way around it")
	}
}
