package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaseDuration is what a node's lease promises, in units of the interval at which it is renewed.
const leaseDuration = 4

// adoptNode corrects what differs between a node of an earlier start and its shape: labels, annotations, then resources. Taints
// and the unschedulable mark stay as others set them since.
func (f *Fleet) adoptNode(ctx context.Context, want *corev1.Node) error {
	nodes := f.client.CoreV1().Nodes()
	have, err := nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !contains(have.Labels, want.Labels) || !contains(have.Annotations, want.Annotations) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": want.Labels, "annotations": want.Annotations}})
		if err != nil {
			return fmt.Errorf("encode labels: %w", err)
		}
		if have, err = nodes.Patch(ctx, want.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("correct labels: %w", err)
		}
	}
	if equality.Semantic.DeepEqual(have.Status.Allocatable, want.Status.Allocatable) && ready(have) {
		return nil
	}
	have = have.DeepCopy()
	have.Status = want.Status
	if _, err := nodes.UpdateStatus(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("correct status: %w", err)
	}
	return nil
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if got, set := have[k]; !set || got != v {
			return false
		}
	}
	return true
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// renewLeases renews the nodes' leases one after the other, spread evenly over each interval, so that N nodes make N/interval
// writes a second and never a burst.
func (f *Fleet) renewLeases(ctx context.Context, shapes []Shape, interval time.Duration) {
	if len(shapes) == 0 {
		return
	}
	tick := time.NewTicker(max(interval/time.Duration(len(shapes)), time.Microsecond))
	defer tick.Stop()
	seconds := int32(max(leaseDuration*interval/time.Second, 1))
	for i := 0; ; i = (i + 1) % len(shapes) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// A renewal that failed is made up for by the next one: leases last for several.
			_ = f.renewLease(ctx, shapes[i].Name, seconds)
		}
	}
}

func (f *Fleet) renewLease(ctx context.Context, node string, seconds int32) error {
	leases := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err != nil {
		return fmt.Errorf("encode the lease of node %q: %w", node, err)
	}
	_, err = leases.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}
