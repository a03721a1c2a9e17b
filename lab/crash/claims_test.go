package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/lab/hollow"
)

var claimSeeds = flag.Int("claim-seeds", 20, "gangs with claims of TestCrashClaims and TestCrashDevices, each with faults of its own; 3 with -short")

const (
	claimNodes = 12 // of one core each: a gang takes eight of them
	claimClass = "faulty"
	actPeriod  = 50 * time.Millisecond
	// Chances of the provisioner's faults at each of its acts, in percent. Together they leave enough that a gang of eight is whole in the end.
	refusesPercent, waitsPercent, doublesPercent = 15, 25, 10
	// killPercent is in how many of a hundred gangs the leader is killed while the claims are being bound.
	killPercent = 50
)

// TestCrashClaims is the promise that a gang whose claims wait for the first consumer is bound whole or not at all, and no member before the claims of all, while
// the provisioner refuses nodes, is slow and makes two volumes for one claim, and leaders die.
func TestCrashClaims(t *testing.T) {
	seeds := *claimSeeds
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	r := newRigWith(t, gangMembers, true)
	p := &faultyProvisioner{client: r.client, random: rand.New(rand.NewPCG(*seed, 1)), refused: make(map[types.UID]bool), has: make(map[types.UID]bool)}
	r.setUpClaims(p)
	kills := 0
	for at := range seeds {
		if r.claimsGang(at) {
			kills++
		}
	}
	t.Logf("%d gangs of %d were bound whole; %d leaders were killed; the provisioner made %d volumes, refused %d nodes, and made %d volumes twice",
		seeds, gangMembers, kills, p.made, p.refusals, p.doubled)
	if p.refusals == 0 || seeds >= 10 && (kills == 0 || p.doubled == 0) {
		t.Error("faults that never strike prove nothing")
	}
}

func (r *rig) setUpClaims(p *faultyProvisioner) {
	r.t.Helper()
	waits, deletes := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	if _, err := r.client.StorageV1().StorageClasses().Create(r.t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimClass}, Provisioner: "faulty.lab.hilbert.dev", VolumeBindingMode: &waits, ReclaimPolicy: &deletes,
	}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.addNodesOfOneCore(claimNodes)
	r.untilTheEnd("provisioner", p.round)
}

func nodeOfOneCore(i int) string { return fmt.Sprintf("claims-%02d", i) }

// addNodesOfOneCore adds nodes that nothing happens on.
func (r *rig) addNodesOfOneCore(count int) {
	r.t.Helper()
	var shapes []hollow.Shape
	for i := range count {
		name := nodeOfOneCore(i)
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
		}})
	}
	for _, s := range shapes { // the ledger does not forget pods that are gone: what it judges of them is that none is bound twice
		s.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1M"), corev1.ResourcePods: resource.MustParse("1M")}
		r.ledger.addNodes([]hollow.Shape{s})
	}
	fleet, err := hollow.Run(r.t.Context(), r.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		r.t.Fatal(err)
	}
	fleet.Stop()
}

// claimsGang runs one gang with volumes, and reports whether a leader was killed meanwhile.
func (r *rig) claimsGang(at int) (killed bool) {
	r.t.Helper()
	ctx, name := r.t.Context(), fmt.Sprintf("claims-%03d", at)
	return r.runGang(ctx, name, gangWithClaims{
		create: func(member string) { r.createWithClaim(ctx, member, name) },
		state: func() (bound int, missing string) {
			bound, unbound := r.claimsState(ctx, name)
			if unbound > 0 {
				missing = fmt.Sprintf("%d claims are not", unbound)
			}
			return bound, missing
		},
		removeClaim: func(name string) error {
			return r.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		},
		claimsLeft: func() (int, error) {
			list, err := r.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		},
	})
}

func (r *rig) createWithClaim(ctx context.Context, name, gang string) {
	r.t.Helper()
	class := claimClass
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if _, err := r.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"gang": gang}}, Spec: corev1.PodSpec{
		SchedulerName: "hilbert", SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &gang},
		Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}},
	}}
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// claimsState counts the members that are bound and then, from a later list, the claims that are not: a claim that is bound stays so.
func (r *rig) claimsState(ctx context.Context, gang string) (bound, unbound int) {
	r.t.Helper()
	pods, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "gang=" + gang})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" {
			bound++
		}
	}
	claims, err := r.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range claims.Items {
		if _, completed := claims.Items[i].Annotations["pv.kubernetes.io/bind-completed"]; !completed { // the phase follows
			unbound++
		}
	}
	return bound, unbound
}

// faultyProvisioner stands in for a driver's. Nothing is stored anywhere.
type faultyProvisioner struct {
	client                  kubernetes.Interface
	random                  *rand.Rand
	made, refusals, doubled int
	refused                 map[types.UID]bool // claims of which it has refused a node: it does so once
	has                     map[types.UID]bool // claims that it has made a volume for: it refuses no node for them any more, as no driver would
}

// round makes volumes for the claims that have a node, or refuses, or waits; and removes volumes that no claim has.
func (p *faultyProvisioner) round(ctx context.Context) error {
	claims, err := p.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		node := c.Annotations["volume.kubernetes.io/selected-node"]
		if node == "" || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
			continue
		}
		switch chance := p.random.IntN(100); {
		case chance < refusesPercent && !p.refused[c.UID] && !p.has[c.UID]:
			p.refused[c.UID] = true
			p.refusals++
			delete(c.Annotations, "volume.kubernetes.io/selected-node")
			if _, err := p.client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
			continue
		case chance < refusesPercent+waitsPercent:
			continue
		case chance < refusesPercent+waitsPercent+doublesPercent:
			p.doubled++
			if err := p.make(ctx, c, node, "second-"); err != nil {
				return err
			}
		}
		if err := p.make(ctx, c, node, "pvc-"); err != nil {
			return err
		}
	}
	volumes, err := p.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Status.Phase == corev1.VolumeReleased && v.DeletionTimestamp == nil {
			if err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

func (p *faultyProvisioner) make(ctx context.Context, c *corev1.PersistentVolumeClaim, node, prefix string) error {
	p.has[c.UID] = true
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: prefix + string(c.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "faulty.lab.hilbert.dev"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: claimClass, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "faulty.lab.hilbert.dev", VolumeHandle: prefix + string(c.UID)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	p.made++
	return err
}
