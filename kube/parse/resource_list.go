package parse

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/resource"
)

// ResourceList writes amounts as people do: cores, and bytes with binary units. What has no bound is left out.
func ResourceList(list []resource.Quantity) corev1.ResourceList {
	out := make(corev1.ResourceList, len(list))
	for _, q := range list {
		switch {
		case q.Amount == math.MaxInt64:
		case q.Name == resource.NameCPU:
			out[corev1.ResourceCPU] = *apiresource.NewMilliQuantity(q.Amount, apiresource.DecimalSI)
		case inBytes(q.Name):
			out[corev1.ResourceName(q.Name)] = *apiresource.NewQuantity(q.Amount, apiresource.BinarySI)
		default:
			out[corev1.ResourceName(q.Name)] = *apiresource.NewQuantity(q.Amount, apiresource.DecimalSI)
		}
	}
	return out
}

func inBytes(name string) bool {
	return name == resource.NameMemory || name == resource.NameEphemeralStorage || len(name) > len(hugepages) && name[:len(hugepages)] == hugepages
}

const hugepages = corev1.ResourceHugePagesPrefix
