package parse

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/kube/standin"
)

func TestNeededFeatures(t *testing.T) {
	no, always := false, corev1.ContainerRestartRuleActionRestartAllContainers
	pod := ours(func(p *corev1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: always}}
		p.Spec.HostNetwork, p.Spec.HostUsers = true, &no
	})
	r := NewParser("hilbert", nil).Pod(pod).Requirements
	if len(r.Features) != 2 || !slices.IsSorted(r.Features) || !slices.Contains(r.Features, "UserNamespacesHostNetworkSupport") || r.Unsupported != nil {
		t.Errorf("features %q, unsupported %q", r.Features, r.Unsupported)
	}
	if r := NewParser("other", nil).Pod(pod).Requirements; r.Features != nil {
		t.Errorf("of somebody else's pod: %q", r.Features)
	}
	if r := NewParser("hilbert", nil).Pod(ours(nil)).Requirements; r.Features != nil {
		t.Errorf("of a plain pod: %q", r.Features)
	}
}

func TestImagesOfPods(t *testing.T) {
	pod := ours(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Image: "init"}, {Image: "web:v1"}}
		p.Spec.Containers = []corev1.Container{{Image: "web:v1"}, {Image: "host:5000/web"}, {Image: "web@sha256:ab"}, {Image: "host:5000/web:v2"}}
		p.Spec.Volumes = []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data"}}},
		}
	})
	want := []string{"init:latest", "web:v1", "web:v1", "host:5000/web:latest", "web@sha256:ab", "host:5000/web:v2", "data:latest"}
	if got := NewParser("hilbert", nil).Pod(pod).Requirements.Images; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := NewParser("other", nil).Pod(pod).Requirements.Images; got != nil {
		t.Errorf("of somebody else's pod: %q", got)
	}
}

// What many objects have in common lies in memory once.
func TestSharing(t *testing.T) {
	p := NewParser("hilbert", nil)
	a, b := p.Pod(standin.TypicalPod(t, 0)), p.Pod(standin.TypicalPod(t, 500)) // of one Deployment
	if len(a.Labels) != 2 || &a.Labels[0] != &b.Labels[0] {
		t.Error("equal labels lie in memory twice")
	}
	m, n := p.Node(standin.TypicalNode(1)), p.Node(standin.TypicalNode(2))
	if len(m.Images) != 100 || &m.Images[0] != &n.Images[0] {
		t.Error("equal images lie in memory twice")
	}
	other := standin.TypicalNode(3)
	other.Status.Images[9].SizeBytes++
	if o := p.Node(other); reflect.DeepEqual(o.Images, m.Images) {
		t.Error("other images are taken for the same")
	}
	if m = p.Node(standin.TypicalNode(1)); !reflect.DeepEqual(m.Images, n.Images) {
		t.Error("the images changed")
	}
	for hash := range p.images.known {
		p.images.known[hash] = nil // as if something else had the same hash
	}
	if m = p.Node(standin.TypicalNode(1)); !reflect.DeepEqual(m.Images, n.Images) {
		t.Error("images with the same hash are taken for the same")
	}
}

func TestFirstSizeOfAnImageCounts(t *testing.T) {
	node := standin.TypicalNode(1)
	for i := range node.Status.Images {
		node.Status.Images[i] = corev1.ContainerImage{Names: []string{fmt.Sprint("image-", (i*7+i/3)%5)}, SizeBytes: int64(i)}
	}
	want := make(map[string]int64)
	for _, image := range slices.Backward(node.Status.Images) {
		want[image.Names[0]] = image.SizeBytes
	}
	got := NewParser("hilbert", nil).Node(node).Images
	for _, image := range got {
		if image.Size != want[image.Name] {
			t.Errorf("%s: %d bytes, want %d", image.Name, image.Size, want[image.Name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
