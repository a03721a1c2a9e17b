package parse

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	componentresource "k8s.io/component-helpers/resource"

	"hilbert.dev/hilbert/resource"
)

// Scores count a container without a request as if it asked for this much, as kube-scheduler does: else such containers would pile up
// on one node.
var (
	scoreCPU    = apiresource.MustParse("100m")
	scoreMemory = apiresource.MustParse("200Mi")
)

var (
	maxWhole = *apiresource.NewQuantity(math.MaxInt64, apiresource.DecimalSI)
	maxMilli = *apiresource.NewQuantity(math.MaxInt64/1000, apiresource.DecimalSI)
)

// amount is the quantity in the resource's unit (millicores for cpu), rounded up, and saturated where an int64 is too small:
// Quantity.Value would wrap round and make the largest request look small.
func amount(name corev1.ResourceName, q *apiresource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		if q.Cmp(maxMilli) > 0 {
			return math.MaxInt64
		}
		return q.MilliValue()
	}
	if q.Cmp(maxWhole) > 0 {
		return math.MaxInt64
	}
	return q.Value()
}

// amounts translates ResourceLists.
type amounts struct{ strings *interner }

// quantities lists what a ResourceList holds, sorted by name, without zeros, GPUs and network cards.
func (a amounts) quantities(list corev1.ResourceList) []resource.Quantity {
	out := make([]resource.Quantity, 0, len(list))
	for name, q := range list {
		if isDevice(name) {
			continue
		}
		if value := amount(name, &q); value != 0 {
			out = append(out, resource.Quantity{Name: a.strings.get(string(name)), Amount: value})
		}
	}
	slices.SortFunc(out, func(x, y resource.Quantity) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// requestOptions are the rules of a v1.37 scheduler with its default feature gates. Claims that map to node resources are counted
// wherever the server reports them, because then they are in use.
var requestOptions = componentresource.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
	UseDRANodeAllocatableResourceClaimStatus:       true,
}

// containerOptions are the rules by which upstream's NodeResourcesFit scores a node for the pod that is being placed: containers' requests
// only, as the spec has them, and each container without one counts with a default.
var containerOptions = componentresource.PodResourcesOptions{
	SkipPodLevelResources:       true,
	NonMissingContainerRequests: corev1.ResourceList{corev1.ResourceCPU: scoreCPU, corev1.ResourceMemory: scoreMemory},
}

// podRequests is upstream's arithmetic. Upstream adds the overhead into the pod-level quantities themselves where these are too large
// for an int64, so it gets a copy of them.
func podRequests(pod *corev1.Pod, options componentresource.PodResourcesOptions) corev1.ResourceList {
	if pod.Spec.Resources != nil {
		copied := *pod
		copied.Spec.Resources = pod.Spec.Resources.DeepCopy()
		pod = &copied
	}
	return componentresource.PodRequests(pod, options)
}

// missingRequests says which defaults to assume for containers without a request. A pod-level request leaves a resource that it or any
// container names alone.
func missingRequests(pod *corev1.Pod, list corev1.ResourceList) corev1.ResourceList {
	missing := corev1.ResourceList{corev1.ResourceCPU: scoreCPU, corev1.ResourceMemory: scoreMemory}
	if componentresource.IsPodLevelRequestsSet(pod) {
		for name := range list {
			delete(missing, name)
		}
	}
	return missing
}
