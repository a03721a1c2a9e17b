package crash

import (
	"context"
	"fmt"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gangWithClaims is a gang whose members have a claim of their name each: how a member is created, how the gang stands, and how its claims are removed.
type gangWithClaims struct {
	create func(member string)
	// state counts the members that are bound, and says what the claims of the gang lack, from a later list; empty: nothing.
	state       func() (bound int, missing string)
	removeClaim func(name string) error
	claimsLeft  func() (int, error)
}

func memberName(gang string, i int) string { return fmt.Sprintf("%s-%d", gang, i) }

// runGang runs one gang from its creation until it is gone, and reports whether a leader was killed meanwhile. While a member is bound the claims lack nothing.
func (r *rig) runGang(ctx context.Context, name string, gang gangWithClaims) (killed bool) {
	r.t.Helper()
	r.createGang(ctx, name)
	for i := range gangMembers {
		gang.create(memberName(name, i))
	}
	kill := r.random.IntN(100) < killPercent
	after := time.Now().Add(time.Duration(r.random.IntN(1500)) * time.Millisecond)
	for end := time.Now().Add(patience); ; time.Sleep(actPeriod) {
		bound, missing := gang.state()
		if bound > 0 && missing != "" {
			r.t.Fatalf("gang %s: %d members are bound, and %s", name, bound, missing)
		}
		if kill && !killed && bound < gangMembers && time.Now().After(after) {
			if err := r.killLeader(ctx); err != nil {
				r.t.Fatal(err)
			}
			killed = true
		}
		if bound == gangMembers {
			break
		}
		if time.Now().After(end) {
			r.t.Fatalf("gang %s: %d of %d members are bound after %s: %s\n%s", name, bound, gangMembers, patience, missing, r.pending())
		}
	}
	if _, breaches, _ := r.ledger.count(); len(breaches) > 0 {
		r.t.Fatal(breaches)
	}
	r.removeGang(ctx, name, gang)
	return killed
}

// createGang creates the PodGroup of a gang.
func (r *rig) createGang(ctx context.Context, name string) {
	r.t.Helper()
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: gangMembers},
		}},
	}
	if _, err := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.ledger.addGang(name, gangMembers)
}

// killLeader kills who leads, and starts another in its place.
func (r *rig) killLeader(ctx context.Context) error {
	i, err := r.leader(ctx)
	if err != nil {
		return err
	}
	if err := r.daemons[i].kill(); err != nil {
		return err
	}
	return r.restart(i)
}

// removeGang deletes a gang with its pods and claims, and waits until the claims are gone.
func (r *rig) removeGang(ctx context.Context, name string, gang gangWithClaims) {
	r.t.Helper()
	now := int64(0)
	for i := range gangMembers {
		member := memberName(name, i)
		if err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, member, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			r.t.Fatal(err)
		}
		if err := gang.removeClaim(member); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(actPeriod) {
		left, err := gang.claimsLeft()
		if err != nil {
			r.t.Fatal(err)
		}
		if left == 0 {
			return
		}
	}
	r.t.Fatalf("the claims of gang %s were not gone within %s", name, patience)
}

// untilTheEnd does something again and again until the test ends.
func (r *rig) untilTheEnd(name string, round func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := round(ctx); err != nil && ctx.Err() == nil {
				r.t.Log(name+":", err) // the next round makes up for it
			}
			time.Sleep(actPeriod)
		}
	}()
	r.t.Cleanup(func() { cancel(); <-ended })
}
