package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	deviceDriver = "faulty-gpu.lab.hilbert.dev"
	deviceReady  = "Attached"
	deviceBroken = "Broken"
	// deviceNodes have a device each: a gang takes eight of them.
	deviceNodes = claimNodes
	// Chances of the driver's faults at each of its acts on a claim, in percent.
	breaksPercent, attachesLatePercent = 15, 25
	// withdrawsPercent is how often, at each round, the driver withdraws a node's slice, to publish it again at the next.
	withdrawsPercent = 10
)

// TestCrashDevices is the same promise for devices (DRA): a gang whose claims are given devices that a driver must attach first is bound whole or not at all, and no
// member before the claims of all are written and their devices attached, while the driver fails, is slow and withdraws devices, and leaders die.
func TestCrashDevices(t *testing.T) {
	seeds := *claimSeeds
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	r := newRigWith(t, gangMembers, true)
	d := &faultyDriver{client: r.client, random: rand.New(rand.NewPCG(*seed, 2)), broke: make(map[types.UID]bool)}
	r.addNodesOfOneCore(deviceNodes)
	for i := range deviceNodes {
		if err := d.publish(t.Context(), nodeOfOneCore(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.client.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimClass},
		Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceDriver)}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.untilTheEnd("driver", d.round)
	kills := 0
	for at := range seeds {
		if r.devicesGang(at) {
			kills++
		}
	}
	t.Logf("%d gangs of %d were bound whole; %d leaders were killed; the driver attached %d devices, failed for %d, and withdrew %d slices",
		seeds, gangMembers, kills, d.attached, d.failures, d.withdrawn)
	if d.failures == 0 || d.withdrawn == 0 || seeds >= 10 && kills == 0 {
		t.Error("faults that never strike prove nothing")
	}
}

// devicesGang runs one gang from its creation until it is gone, and reports whether a leader was killed meanwhile.
func (r *rig) devicesGang(at int) (killed bool) {
	r.t.Helper()
	ctx, name := r.t.Context(), fmt.Sprintf("devices-%03d", at)
	return r.runGang(ctx, name, gangWithClaims{
		create:      func(member string) { r.createWithDevice(ctx, member, name) },
		state:       func() (int, string) { return r.devicesState(ctx, name) },
		removeClaim: func(name string) error { return r.removeDeviceClaim(ctx, name) },
		claimsLeft: func() (int, error) {
			list, err := r.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "gang=" + name})
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		},
	})
}

func (r *rig) createWithDevice(ctx context.Context, name, gang string) {
	r.t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"gang": gang}}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: claimClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}},
	}}
	if _, err := r.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"gang": gang}}, Spec: corev1.PodSpec{
		SchedulerName: "hilbert", SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &gang},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
		Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}, Claims: []corev1.ResourceClaim{{Name: "gpu"}},
		}}},
	}}
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// devicesState counts the members that are bound and says then, from a later list, what a claim of the gang lacks. What a claim of a bound gang has it keeps. No device
// may be in two claims, and a bound pod is where its device is.
func (r *rig) devicesState(ctx context.Context, gang string) (bound int, missing string) {
	r.t.Helper()
	list := metav1.ListOptions{LabelSelector: "gang=" + gang}
	pods, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, list)
	if err != nil {
		r.t.Fatal(err)
	}
	nodes := make(map[string]string)
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" {
			nodes[p.Name] = p.Spec.NodeName
			bound++
		}
	}
	claims, err := r.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, list)
	if err != nil {
		r.t.Fatal(err)
	}
	of := make(map[string]string)
	for i := range claims.Items {
		c := &claims.Items[i]
		a := c.Status.Allocation
		if a == nil || len(a.Devices.Results) != 1 || len(c.Status.ReservedFor) != 1 {
			missing = fmt.Sprintf("claim %s has no device, or is not reserved: %+v", c.Name, c.Status)
			continue
		}
		pool := a.Devices.Results[0].Pool
		if other, ok := of[pool]; ok {
			r.t.Fatalf("the device of %s is in claims %s and %s", pool, other, c.Name)
		}
		of[pool] = c.Name
		if node, ok := nodes[c.Name]; ok && node != pool {
			r.t.Fatalf("pod %s is on %s, its device on %s", c.Name, node, pool)
		}
		if !says(c, deviceReady) {
			missing = fmt.Sprintf("the device of claim %s is not attached", c.Name)
		}
	}
	return bound, missing
}

// says reports whether a condition of the claim's device is True.
func says(c *resourcev1.ResourceClaim, condition string) bool {
	return slices.ContainsFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return slices.ContainsFunc(d.Conditions, func(x metav1.Condition) bool { return x.Type == condition && x.Status == metav1.ConditionTrue })
	})
}

// removeDeviceClaim deletes a claim. The controller of claims takes the devices back in its own time; here nobody waits for it.
func (r *rig) removeDeviceClaim(ctx context.Context, name string) error {
	claims := r.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// faultyDriver stands in for a driver of devices. It attaches nothing to anything.
type faultyDriver struct {
	client                        kubernetes.Interface
	random                        *rand.Rand
	attached, failures, withdrawn int
	broke                         map[types.UID]bool // claims for which it has failed: it does so once
	away                          []string           // nodes whose slices are withdrawn
}

func sliceName(node string) string { return "gpu-" + node }

// publish publishes the one device of a node.
func (d *faultyDriver) publish(ctx context.Context, node string) error {
	_, err := d.client.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: sliceName(node)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu", BindsToNode: new(true), BindingConditions: []string{deviceReady}, BindingFailureConditions: []string{deviceBroken}}},
		},
	}, metav1.CreateOptions{})
	return err
}

// round attaches the devices of claims, or fails, or waits; and withdraws a slice now and then.
func (d *faultyDriver) round(ctx context.Context) error {
	for _, node := range d.away {
		if err := d.publish(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	d.away = nil
	if d.random.IntN(100) < withdrawsPercent {
		node := nodeOfOneCore(d.random.IntN(deviceNodes))
		if err := d.client.ResourceV1().ResourceSlices().Delete(ctx, sliceName(node), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		d.away = append(d.away, node)
		d.withdrawn++
	}
	claims, err := d.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.Allocation == nil || c.DeletionTimestamp != nil || len(c.Status.Devices) > 0 {
			continue
		}
		condition := deviceReady
		switch chance := d.random.IntN(100); {
		case chance < breaksPercent && !d.broke[c.UID]:
			condition = deviceBroken
		case chance < breaksPercent+attachesLatePercent:
			continue
		}
		if err := d.say(ctx, c, condition); err != nil {
			return err
		}
	}
	return nil
}

// say sets a condition of a claim's device.
func (d *faultyDriver) say(ctx context.Context, c *resourcev1.ResourceClaim, condition string) error {
	for _, r := range c.Status.Allocation.Devices.Results {
		c.Status.Devices = append(c.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{
			{Type: condition, Status: metav1.ConditionTrue, Reason: "Lab", LastTransitionTime: metav1.Now()},
		}})
	}
	_, err := d.client.ResourceV1().ResourceClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the next round looks at it again
	case err == nil && condition == deviceBroken:
		d.broke[c.UID] = true
		d.failures++
	case err == nil:
		d.attached++
	}
	return err
}
