package suite

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// storageClass is the default class of claims, and provisionerName who serves it.
	storageClass, provisionerName = "hollow", "hollow.lab.hilbert.dev"
	// annotationSelectedNode is where a scheduler names the node that a claim is to be provisioned for.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	annotationProvisioner  = "pv.kubernetes.io/provisioned-by"
	provisionPeriod        = 200 * time.Millisecond
)

// provisioner stands in for a CSI driver's: it makes a volume on the node that a scheduler has chosen for a claim, and removes volumes that were released. Nothing is
// stored anywhere. It lists the few claims that a spec makes, and watches nothing.
type provisioner struct{ client kubernetes.Interface }

// startProvisioner makes the default class, which waits for the first consumer, and serves it until ctx ends. What goes wrong is written to log.
func startProvisioner(ctx context.Context, client kubernetes.Interface, log io.Writer) error {
	waits, deletes := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisionerName, VolumeBindingMode: &waits, ReclaimPolicy: &deletes,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("default storage class: %w", err)
	}
	p := provisioner{client}
	go func() {
		tick := time.NewTicker(provisionPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := p.round(ctx); err != nil && ctx.Err() == nil {
					fmt.Fprintln(log, "provisioner:", err) // the next round makes up for it
				}
			}
		}
	}()
	return nil
}

func (p provisioner) round(ctx context.Context) error {
	claims, err := p.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		node := c.Annotations[annotationSelectedNode]
		if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != storageClass || c.Spec.VolumeName != "" || node == "" || c.DeletionTimestamp != nil {
			continue
		}
		if _, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volumeOf(c, node), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	volumes, err := p.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Annotations[annotationProvisioner] != provisionerName || v.Status.Phase != corev1.VolumeReleased || v.DeletionTimestamp != nil {
			continue
		}
		if err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// volumeOf is the volume for a claim, on a node and nowhere else. Its name follows from the claim, so that a claim gets one.
func volumeOf(c *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Annotations: map[string]string{annotationProvisioner: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]}, AccessModes: c.Spec.AccessModes,
			VolumeMode: c.Spec.VolumeMode, StorageClassName: storageClass, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: types.UID(c.UID), ResourceVersion: c.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: provisionerName, VolumeHandle: string(c.UID)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}
