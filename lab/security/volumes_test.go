package security

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// giveVolumes has hilbertd place a pod whose claim a volume exists for, and one whose claim a driver has to provision one for. The test plays the controller of
// volumes and the driver: it binds a claim once hilbertd has chosen the claim's volume, or node.
func (b *bed) giveVolumes(t *testing.T) {
	t.Helper()
	ctx, create := t.Context(), metav1.CreateOptions{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, driver := range map[string]string{"local": "kubernetes.io/no-provisioner", "fast": "csi.example.org"} {
		_, err := b.admin.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		}, create)
		must(err)
	}
	must(b.makeVolume(ctx, "disk", "local", nil))
	for _, class := range []string{"local", "fast"} {
		_, err := b.admin.CoreV1().PersistentVolumeClaims(theirs).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, create)
		must(err)
		_, err = b.admin.CoreV1().Pods(theirs).Create(ctx, wants("on-"+class, "10m", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{
				Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: class}},
			}}
		}), create)
		must(err)
	}
	must(until(ctx, func() error {
		v, err := b.admin.CoreV1().PersistentVolumes().Get(ctx, "disk", metav1.GetOptions{})
		if err == nil && (v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" || v.Spec.ClaimRef.Name != "local" || v.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes") {
			return fmt.Errorf("the volume is not told its claim: %+v", v.Spec.ClaimRef)
		}
		return err
	}))
	must(b.bindClaim(ctx, "local", "disk"))
	must(b.awaitPlace(ctx, "on-local"))
	node, claim := "", &corev1.PersistentVolumeClaim{}
	must(until(ctx, func() (err error) {
		claim, err = b.admin.CoreV1().PersistentVolumeClaims(theirs).Get(ctx, "fast", metav1.GetOptions{})
		if node = claim.Annotations["volume.kubernetes.io/selected-node"]; err == nil && node == "" {
			return fmt.Errorf("the claim is not told its node: %v", claim.Annotations)
		}
		return err
	}))
	p, err := b.admin.CoreV1().Pods(theirs).Get(ctx, "on-fast", metav1.GetOptions{})
	must(err)
	if p.Spec.NodeName != "" {
		t.Errorf("the pod is on %s before its claim is bound", p.Spec.NodeName)
	}
	must(b.makeVolume(ctx, "made", "fast", &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: theirs, Name: claim.Name, UID: claim.UID}))
	must(b.bindClaim(ctx, "fast", "made"))
	must(b.awaitPlace(ctx, "on-fast"))
	if p, err = b.admin.CoreV1().Pods(theirs).Get(ctx, "on-fast", metav1.GetOptions{}); err != nil || p.Spec.NodeName != node {
		t.Errorf("the pod is on %q, its claim was told %s: %v", p.Spec.NodeName, node, err)
	}
}

// makeVolume makes a volume that is available, or kept for a claim.
func (b *bed) makeVolume(ctx context.Context, name, class string, claim *corev1.ObjectReference) error {
	v, err := b.admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: claim,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.org", VolumeHandle: name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	v.Status.Phase = corev1.VolumeAvailable
	_, err = b.admin.CoreV1().PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
	return err
}

// bindClaim binds a claim to its volume, as the controller of volumes does.
func (b *bed) bindClaim(ctx context.Context, name, volume string) error {
	return until(ctx, func() error {
		c, err := b.admin.CoreV1().PersistentVolumeClaims(theirs).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		c.Spec.VolumeName = volume
		_, err = b.admin.CoreV1().PersistentVolumeClaims(theirs).Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
}
