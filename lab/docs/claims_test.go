package docs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/internal/doctest"
	"hilbert.dev/hilbert/internal/reference"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

// boundWithin bounds how long the pods of the examples may wait. It is no measure of speed.
const boundWithin = 3 * time.Minute

// TestExamplesOfClaimsAreBound applies the examples of the pages about volumes and devices, and waits until hilbertd has bound all their pods. Controllers run, and
// hollow nodes; the test plays the drivers, which publish devices and make volumes for the nodes that hilbertd chooses.
func TestExamplesOfClaimsAreBound(t *testing.T) {
	b := startBed(t)
	want := []string{"db-0", "db-1", "db-2", "sender", "trainer"} // of both pages
	for _, name := range []string{"docs/concepts/volumes.md", "docs/concepts/devices.md"} {
		text, err := os.ReadFile(filepath.Join(reference.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range doctest.Blocks(name, string(text)) {
			if block.Language == "yaml" {
				b.apply(t, block)
			}
		}
	}
	var bound, waits []string
	for end := time.Now().Add(boundWithin); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err := b.makeVolumes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if bound, waits = b.pods(t); slices.Equal(bound, want) && len(waits) == 0 {
			b.holdsDevices(t)
			return
		}
	}
	t.Fatalf("the pods %v are bound, want %v; others wait: %v", bound, want, waits)
}

// bed is a control plane with controllers, nodes and hilbertd.
type bed struct {
	server
}

func startBed(t *testing.T) *bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{Controllers: true, Volumes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := plane.Stop(stopping); err != nil {
			t.Error(err)
		}
	})
	b := &bed{server{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), namespaces: map[string]bool{}}}
	config := plane.AdminConfig()
	if b.admin, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(plane.WriteKubeconfig(b.kubeconfig), plane.InstallDefinitions(ctx)); err != nil {
		t.Fatal(err)
	}
	b.addNodes(t, config)
	runHilbertd(t, config)
	return b
}

func runHilbertd(t *testing.T, config *rest.Config) {
	t.Helper()
	c := spec.Default()
	c.Server.BindAddress = "-"
	c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(90*time.Second), spec.Duration(time.Minute) // a busy machine must not lose it
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, c, daemon.Options{Connection: config, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// addNodes adds three nodes with two GPUs and a network card each, of drivers that the pages name.
func (b *bed) addNodes(t *testing.T, config *rest.Config) {
	t.Helper()
	var shapes []hollow.Shape
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("20"),
		}})
	}
	fleet, err := hollow.Run(t.Context(), config, shapes, hollow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Stop)
	for _, s := range shapes {
		for driver, count := range map[string]int{"gpu.example.com": 2, "nic.example.com": 1} {
			slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-" + driver}, Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &s.Name, Pool: resourcev1.ResourcePool{Name: s.Name, Generation: 1, ResourceSliceCount: 1},
			}}
			for i := range count {
				slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
			}
			if _, err := b.admin.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// apply applies the objects of a block, as they stand there.
func (b *bed) apply(t *testing.T, block *doctest.Block) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "block.yaml")
	if err := os.WriteFile(file, []byte(block.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) { // the account that pods get may not be there yet
		out, err := b.kubectl([]string{"apply", "-f", file})
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v\n%s", block.At(), err, out)
		}
	}
}

// pods lists the pods by whether they are bound.
func (b *bed) pods(t *testing.T) (bound, waits []string) {
	t.Helper()
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" {
			bound = append(bound, p.Name)
		} else {
			waits = append(waits, fmt.Sprintf("%s: %+v", p.Name, p.Status.Conditions))
		}
	}
	slices.Sort(bound)
	return bound, waits
}

// makeVolumes makes volumes for the claims that have a node, as a driver does; the controller of volumes binds them.
func (b *bed) makeVolumes(ctx context.Context) error {
	claims, err := b.admin.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		node := c.Annotations["volume.kubernetes.io/selected-node"]
		if node == "" || c.Spec.VolumeName != "" {
			continue
		}
		_, err := b.admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "csi.example.org"}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: *c.Spec.StorageClassName, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.org", VolumeHandle: string(c.UID)}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}}},
			},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// holdsDevices: the pods of the page about devices have what they ask for, on their nodes.
func (b *bed) holdsDevices(t *testing.T) {
	t.Helper()
	claims, err := b.admin.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devices := make(map[string]int)
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
			t.Errorf("claim %s: %+v", c.Name, c.Status)
			continue
		}
		pod, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), c.Status.ReservedFor[0].Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if devices[pod.Name]++; r.Pool != pod.Spec.NodeName {
				t.Errorf("pod %s is on %s, its device on %s", pod.Name, pod.Spec.NodeName, r.Pool)
			}
		}
	}
	if devices["trainer"] != 2 || devices["sender"] != 1 || len(devices) != 2 {
		t.Errorf("the pods have devices: %v", devices)
	}
}
