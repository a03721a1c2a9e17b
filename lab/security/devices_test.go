package security

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// giveDevices has hilbertd place a pod whose claim was made from a template, two pods that share a claim, and one that asks for an extended resource. The test plays the
// drivers, which publish three devices on each node, and the controller that makes claims from templates.
func (b *bed) giveDevices(t *testing.T) {
	t.Helper()
	ctx, create := t.Context(), metav1.CreateOptions{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.admin.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "big"`,
		}}}, ExtendedResourceName: new("example.com/gpu")},
	}, create)
	must(err)
	nodes, err := b.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(err)
	for i := range nodes.Items {
		must(b.publish(t, nodes.Items[i].Name, 3))
	}
	uses := func(pod *corev1.Pod, entry corev1.PodResourceClaim) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, entry)
		c := &pod.Spec.Containers[0]
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: entry.Name})
	}
	template := func(name string) *corev1.Pod {
		pod := wants(name, "10m", func(p *corev1.Pod) {
			uses(p, corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("gpu")})
		})
		pod, err := b.admin.CoreV1().Pods(theirs).Create(ctx, pod, create)
		must(err)
		return pod
	}
	// From a template: nothing happens before the claim is there, and the pod says so.
	pod := template("has-gpu")
	b.generate(t, pod, 1)
	must(b.awaitPlace(ctx, "has-gpu"))
	b.expectClaim(t, "has-gpu-gpu", 1, "has-gpu")

	// Shared.
	_, err = b.admin.ResourceV1().ResourceClaims(theirs).Create(ctx, gpuClaim("shared", 1), create)
	must(err)
	for _, name := range []string{"shares-0", "shares-1"} {
		_, err := b.admin.CoreV1().Pods(theirs).Create(ctx, wants(name, "10m", func(p *corev1.Pod) {
			uses(p, corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: new("shared")})
		}), create)
		must(err)
	}
	must(b.awaitPlace(ctx, "shares-0"))
	must(b.awaitPlace(ctx, "shares-1"))
	b.expectClaim(t, "shared", 1, "shares-0", "shares-1")

	// As an extended resource, which no node publishes: hilbertd makes the claim.
	_, err = b.admin.CoreV1().Pods(theirs).Create(ctx, wants("asks-gpu", "10m", func(p *corev1.Pod) {
		one := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Limits = one
		maps.Copy(p.Spec.Containers[0].Resources.Requests, one)
	}), create)
	must(err)
	must(b.awaitPlace(ctx, "asks-gpu"))
	asks, err := b.admin.CoreV1().Pods(theirs).Get(ctx, "asks-gpu", metav1.GetOptions{})
	must(err)
	said := asks.Status.ExtendedResourceClaimStatus
	if said == nil || len(said.RequestMappings) != 1 || said.RequestMappings[0].ResourceName != "example.com/gpu" {
		t.Fatalf("the pod is told of its claim: %+v", said)
	}
	b.expectClaim(t, said.ResourceClaimName, 1, "asks-gpu")
	made, err := b.admin.ResourceV1().ResourceClaims(theirs).Get(ctx, said.ResourceClaimName, metav1.GetOptions{})
	must(err)
	if made.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || !metav1.IsControlledBy(made, asks) {
		t.Errorf("the claim is the pod's, and is marked: %+v", made.ObjectMeta)
	}
}

// publish publishes devices of a node, as a driver does.
func (b *bed) publish(t *testing.T, node string, count int) error {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: new("big")}},
		})
	}
	_, err := b.admin.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	return err
}

func gpuClaim(name string, count int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: theirs},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
		}}}},
	}
}

// generate makes the claim of a pod's template, as the controller of claims does.
func (b *bed) generate(t *testing.T, pod *corev1.Pod, count int64) {
	t.Helper()
	claim := gpuClaim(pod.Name+"-gpu", count)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
	if _, err := b.admin.ResourceV1().ResourceClaims(theirs).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":%q}]}}`, claim.Name)
	if _, err := b.admin.CoreV1().Pods(theirs).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// expectClaim holds a claim to what was allocated, and to the pods that it is reserved for.
func (b *bed) expectClaim(t *testing.T, name string, devices int, pods ...string) {
	t.Helper()
	c, err := b.admin.ResourceV1().ResourceClaims(theirs).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
		t.Errorf("claim %s has no finalizer: %v", name, c.Finalizers)
	}
	if a := c.Status.Allocation; a == nil || len(a.Devices.Results) != devices || a.NodeSelector == nil || a.AllocationTimestamp == nil {
		t.Errorf("claim %s: %d devices were to be allocated on one node: %+v", name, devices, a)
	}
	var reserved []string
	for _, r := range c.Status.ReservedFor {
		reserved = append(reserved, r.Name)
	}
	slices.Sort(reserved)
	if !slices.Equal(reserved, pods) {
		t.Errorf("claim %s is reserved for %v, not for %v", name, reserved, pods)
	}
}
