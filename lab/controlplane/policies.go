package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/deploy/policies"
)

// AdminUser is who AdminConfig and WriteKubeconfig speak for.
const AdminUser = adminUser

// policiesPath is where admission policies live; policyResources are their kinds.
const policiesPath = "/apis/admissionregistration.k8s.io/v1"

var policyResources = map[string]string{
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
}

// InstallPolicies applies Hilbert's admission policies. Beside the account of deploy/rbac.yaml, these users may write placements, because
// in a lab hilbertd runs as another user. The API server acts on the policies about a second later.
func (c *ControlPlane) InstallPolicies(ctx context.Context, placers ...string) error {
	admin, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	documents, err := PolicyDocuments(placers...)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if err := ApplyPolicy(ctx, admin.Discovery().RESTClient(), document); err != nil {
			return err
		}
	}
	return nil
}

// PolicyDocuments returns the policies and bindings of deploy/policies as JSON, one object each.
func PolicyDocuments(placers ...string) ([][]byte, error) {
	names, err := fs.Glob(policies.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	allowed := "'" + strings.Join(append([]string{policies.Placer}, placers...), "', '") + "'"
	var out [][]byte
	for _, name := range names {
		text, err := fs.ReadFile(policies.Files, name)
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("'"+policies.Placer+"'"), []byte(allowed))
		documents, err := jsonDocuments(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, documents...)
	}
	return out, nil
}

// ApplyPolicy makes one policy or binding, given as JSON, what it should be.
func ApplyPolicy(ctx context.Context, api rest.Interface, document []byte) error {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(document, &o); err != nil {
		return fmt.Errorf("read a policy: %w", err)
	}
	resource, ok := policyResources[o.Kind]
	if !ok {
		return fmt.Errorf("%s %s is no admission policy", o.Kind, o.Name)
	}
	err := api.Patch(types.ApplyYAMLPatchType).AbsPath(policiesPath, resource, o.Name).
		Param("fieldManager", clusterName).Param("force", "true").Param("fieldValidation", "Strict").Body(document).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply the %s %s: %w", o.Kind, o.Name, err)
	}
	return nil
}
