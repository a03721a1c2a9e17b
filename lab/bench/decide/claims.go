package decide

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scenarios "hilbert.dev/hilbert/bench"
)

// What the claims of volumes and devices are about: both sides are told the same objects.
const (
	claimDriver = "csi.example.com"
	// attachLimit is how many volumes a node attaches: more than it has pods in these scenarios, so that the limit is counted and refuses nobody.
	attachLimit  = 128
	storageName  = "fast"
	deviceDriver = "gpu.example.com"
	deviceName   = "gpu"
	// nodeDevices is how many devices each node has.
	nodeDevices = 8
)

// claimObjects makes the objects of claims. Each write that it stands for has a greater version.
type claimObjects struct {
	kind    scenarios.Case
	version uint64
}

// hasClaims: each pod of the case has a claim.
func hasClaims(c scenarios.Case) bool {
	return slices.Contains([]scenarios.Case{scenarios.Volumes, scenarios.NewVolumes, scenarios.Devices}, c)
}

// claimOf names the claim that is made for the pod that is the created-th.
func claimOf(created int) string { return fmt.Sprintf("claim-%07d", created) }

// claimZone is where the volume of a claim lies that is bound before its pod comes.
func claimZone(claim string) string { return scenarios.ZoneName(int(claim[len(claim)-1])) }

func volumeName(claim string) string { return "pv-" + claim }

// keeps: the claim stays when its pod leaves, for the one that takes its place, as in a StatefulSet.
func (c *claimObjects) keeps() bool { return c.kind == scenarios.Volumes }

func (c *claimObjects) meta(name string) metav1.ObjectMeta {
	c.version++
	return metav1.ObjectMeta{Namespace: scenarios.Namespace, Name: name, UID: types.UID(name), ResourceVersion: strconv.FormatUint(c.version, 10)}
}

// touch gives an object the version of a write.
func (c *claimObjects) touch(object metav1.Object) {
	c.version++
	object.SetResourceVersion(strconv.FormatUint(c.version, 10))
}

func storageClass() *storagev1.StorageClass {
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: storageName}, Provisioner: claimDriver, VolumeBindingMode: &waits}
}

func csiNode(node string) *storagev1.CSINode {
	limit := int32(attachLimit)
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: claimDriver, NodeID: node, TopologyKeys: []string{scenarios.LabelZone}, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}},
	}}}
}

// volumeClaim is a claim that waits for its first consumer.
func (c *claimObjects) volumeClaim(name string) *corev1.PersistentVolumeClaim {
	class := storageName
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: c.meta(name),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// bind binds a claim to a volume that is made for it in a zone.
func (c *claimObjects) bind(claim *corev1.PersistentVolumeClaim, zone string) *corev1.PersistentVolume {
	name := volumeName(claim.Name)
	volume := &corev1.PersistentVolume{
		ObjectMeta: c.meta(name),
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: storageName, AccessModes: claim.Spec.AccessModes,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: claimDriver, VolumeHandle: name}},
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: scenarios.LabelZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	volume.Namespace = ""
	claim.Spec.VolumeName = name
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	claim.Status.Phase = corev1.ClaimBound
	c.touch(claim)
	return volume
}

func deviceClass() *resourcev1.DeviceClass {
	expression := `device.driver == "` + deviceDriver + `" && device.attributes["` + deviceDriver + `"].model in ["big", "small"]`
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: deviceName}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}},
	}}
}

// deviceSlice is the devices of a node.
func deviceSlice(node string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + deviceName}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	model := "small"
	for i := range nodeDevices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprint(deviceName, "-", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	return slice
}

// deviceClaim asks for one device.
func (c *claimObjects) deviceClaim(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: c.meta(name), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: deviceName, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}}}}
}
