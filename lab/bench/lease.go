package bench

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// holder is how the harness signs the Leases that it holds.
	holder = "bench-harness"
	// heldSeconds is how long a held Lease lasts without renewal: longer than any run.
	heldSeconds = int32(24 * 60 * 60)
	// releasedSeconds is what the last holder leaves behind when it gives a Lease back.
	releasedSeconds = int32(1)
)

// holdLease makes the harness the leader, so that a contestant syncs and waits.
func (h *harness) holdLease(ctx context.Context, name string) error {
	return h.writeLease(ctx, name, holder, heldSeconds)
}

// releaseLease lets the contestant lead.
func (h *harness) releaseLease(ctx context.Context, name string) error {
	return h.writeLease(ctx, name, "", releasedSeconds)
}

func (h *harness) writeLease(ctx context.Context, name, identity string, seconds int32) error {
	leases := h.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	now := metav1.MicroTime{Time: time.Now()}
	spec := coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	} else if err == nil {
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the Lease %s: %w", name, err)
	}
	return nil
}
