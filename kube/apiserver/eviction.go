package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EvictionBody encodes an eviction of the pod with that UID and no other. dryRun: the API server says whether it would be done, and evicts nobody.
func EvictionBody(namespace, name, uid string, dryRun bool) ([]byte, error) {
	id := types.UID(uid)
	eviction := policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}},
	}
	if dryRun {
		eviction.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(&eviction)
	if err != nil {
		return nil, fmt.Errorf("encode the eviction of %s/%s: %w", namespace, name, err)
	}
	return body, nil
}

// NamesBudget reports whether a disruption budget is why an eviction is refused.
func NamesBudget(s *metav1.Status) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == policyv1.DisruptionBudgetCause })
}
