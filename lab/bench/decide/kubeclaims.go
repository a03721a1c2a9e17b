package decide

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedresourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"

	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/lab/fakeinformer"
)

// kubeClaims is hilbertClaims for kube-scheduler: its informers of claims, and the API server as far as claims are concerned. kubeSide.mu guards the versions.
type kubeClaims struct {
	claimObjects

	zones map[string]string // of each node

	volumeClaims, volumes, classes, csiNodes *fakeinformer.Informer
	deviceClaims, slices, deviceClasses      *fakeinformer.Informer
}

// newKubeClaims takes the place of the factory's informers, before a scheduler asks for them.
func newKubeClaims(kind scenarios.Case, factory informers.SharedInformerFactory) *kubeClaims {
	return &kubeClaims{
		claimObjects: claimObjects{kind: kind}, zones: make(map[string]string),
		volumeClaims: fakeinformer.Replace(factory, &corev1.PersistentVolumeClaim{}), volumes: fakeinformer.Replace(factory, &corev1.PersistentVolume{}),
		classes: fakeinformer.Replace(factory, &storagev1.StorageClass{}), csiNodes: fakeinformer.Replace(factory, &storagev1.CSINode{}),
		deviceClaims: fakeinformer.Replace(factory, &resourcev1.ResourceClaim{}), slices: fakeinformer.Replace(factory, &resourcev1.ResourceSlice{}),
		deviceClasses: fakeinformer.Replace(factory, &resourcev1.DeviceClass{}),
	}
}

// addNodes tells what nodes have, and the classes.
func (c *kubeClaims) addNodes(nodes []scenarios.Node) error {
	errs := []error{c.classes.Set(storageClass()), c.deviceClasses.Set(deviceClass())}
	for i := range nodes {
		n := &nodes[i]
		c.zones[n.Name] = n.Labels[scenarios.LabelZone]
		if c.kind == scenarios.Devices {
			errs = append(errs, c.slices.Set(deviceSlice(n.Name)))
		} else {
			errs = append(errs, c.csiNodes.Set(csiNode(n.Name)))
		}
	}
	return errors.Join(errs...)
}

// use makes a pod use a claim.
func (c *kubeClaims) use(pod *corev1.Pod, claim string) {
	if c.kind == scenarios.Devices {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
		return
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}

// usedBy is the claim of a pod.
func (c *kubeClaims) usedBy(pod *corev1.Pod) string {
	if c.kind == scenarios.Devices {
		return *pod.Spec.ResourceClaims[0].ResourceClaimName
	}
	return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
}

// add tells of a claim for which nothing was done yet, or, of a volume that is there before, of both.
func (c *kubeClaims) add(claim string) error {
	if c.kind == scenarios.Devices {
		return c.deviceClaims.Set(c.deviceClaim(claim))
	}
	made := c.volumeClaim(claim)
	if c.kind == scenarios.Volumes {
		return c.bindVolume(made, claimZone(claim))
	}
	return c.volumeClaims.Set(made)
}

// addUsed tells of the claim of a pod that is on a node already.
func (c *kubeClaims) addUsed(p *placed, pod *corev1.Pod) error {
	switch c.kind {
	case scenarios.Devices:
		made := c.deviceClaim(p.claim)
		made.Finalizers = []string{resourcev1.Finalizer}
		made.Status.Allocation = p.devices
		made.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		return c.deviceClaims.Set(made)
	case scenarios.NewVolumes:
		return c.bindVolume(c.volumeClaim(p.claim), c.zones[p.node])
	default:
		return c.bindVolume(c.volumeClaim(p.claim), claimZone(p.claim))
	}
}

func (c *kubeClaims) bindVolume(claim *corev1.PersistentVolumeClaim, zone string) error {
	made := c.bind(claim, zone)
	return errors.Join(c.volumes.Set(made), c.volumeClaims.Set(claim))
}

// remove tells that a claim is gone, and its volume.
func (c *kubeClaims) remove(claim string) error {
	meta := metav1.ObjectMeta{Namespace: scenarios.Namespace, Name: claim, UID: types.UID(claim)}
	if c.kind == scenarios.Devices {
		return c.deviceClaims.Remove(&resourcev1.ResourceClaim{ObjectMeta: meta})
	}
	volume := metav1.ObjectMeta{Name: volumeName(claim), UID: types.UID(volumeName(claim))}
	return errors.Join(c.volumeClaims.Remove(&corev1.PersistentVolumeClaim{ObjectMeta: meta}), c.volumes.Remove(&corev1.PersistentVolume{ObjectMeta: volume}))
}

// memoryVolumeClaims is the API server and the driver: a claim that is told its node gets a volume there at once.
type memoryVolumeClaims struct {
	typedcorev1.PersistentVolumeClaimInterface

	side *kubeSide
}

func (m memoryVolumeClaims) Update(_ context.Context, claim *corev1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	node, told := claim.Annotations[parse.AnnotationSelectedNode]
	if !told {
		return nil, fmt.Errorf("claim %s is written for another reason than its node", claim.Name)
	}
	c := m.side.claims
	m.side.mu.Lock()
	defer m.side.mu.Unlock()
	written, provisioned := claim.DeepCopy(), claim.DeepCopy()
	c.touch(written)
	return written, c.bindVolume(provisioned, c.zones[node])
}

// memoryResources is the API server as far as ResourceClaims are concerned.
type memoryResources struct {
	typedresourcev1.ResourceV1Interface

	side *kubeSide
}

func (m memoryResources) ResourceClaims(string) typedresourcev1.ResourceClaimInterface {
	return memoryDeviceClaims{side: m.side}
}

type memoryDeviceClaims struct {
	typedresourcev1.ResourceClaimInterface

	side *kubeSide
}

func (m memoryDeviceClaims) Update(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	m.side.mu.Lock()
	defer m.side.mu.Unlock()
	written := claim.DeepCopy()
	m.side.claims.touch(written)
	return written, m.side.claims.deviceClaims.Set(written)
}

// UpdateStatus writes the devices that a claim is given, and for whom it is reserved.
func (m memoryDeviceClaims) UpdateStatus(ctx context.Context, claim *resourcev1.ResourceClaim, o metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return m.Update(ctx, claim, o)
}
