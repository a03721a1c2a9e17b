package command

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The cleanup runs where the agents run, with their image, configuration and folders, and without an account of the API server. It can give interrupts back.
func TestCleanupOf(t *testing.T) {
	agent := &appsv1.DaemonSet{}
	agent.Name, agent.Namespace = "hilbert-agent", "elsewhere"
	pod := &agent.Spec.Template.Spec
	pod.Containers = []corev1.Container{{Name: "agent", Image: "registry/hilbertd@sha256:1"}}
	pod.NodeSelector = map[string]string{"hilbert.dev/agent": "true"}
	pod.ServiceAccountName = "hilbert-agent"
	pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	pod.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}}}},
		{Name: "token"},
	}
	d, err := cleanupOf(agent)
	if err != nil {
		t.Fatal(err)
	}
	spec := &d.Spec.Template.Spec
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		if c.Image != "registry/hilbertd@sha256:1" {
			t.Errorf("%s runs %s", c.Name, c.Image)
		}
	}
	if d.Name != "hilbert-cleanup" || d.Namespace != "elsewhere" || spec.NodeSelector["hilbert.dev/agent"] != "true" || len(spec.ImagePullSecrets) != 1 || spec.ServiceAccountName != "" {
		t.Errorf("%+v", d)
	}
	interrupts := ""
	for _, v := range spec.Volumes {
		if v.Name == "config" && v.ConfigMap.Name != "mine" || v.Name == "token" {
			t.Errorf("%+v", v)
		}
		if v.HostPath != nil && v.HostPath.Path == "/proc/irq" {
			interrupts = v.Name
		}
	}
	if !slices.ContainsFunc(spec.InitContainers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == interrupts && m.MountPath == "/run/hilbert-irq" && !m.ReadOnly
	}) {
		t.Errorf("the cleanup cannot write the host's /proc/irq, for that of its own pod is read-only: %+v", spec.InitContainers[0].VolumeMounts)
	}
	if _, err := cleanupOf(&appsv1.DaemonSet{}); err == nil {
		t.Error("an agent without a container has no image")
	}
}

func TestInstalled(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		want       bool
	}{
		{"Secret", "sh.helm.release.v1.hilbert.v3", true},
		{"Secret", "sh.helm.release.v1.hilbertian.v1", false},
		{"Secret", "hilbertd-serving", true},
		{"ConfigMap", "kube-root-ca.crt", false},
		{"ConfigMap", "hilberts", false},
		{"ClusterRole", "hilbert-viewer", true},
		{"ClusterRole", "view", false},
		{"CustomResourceDefinition", "queues.scheduling.hilbert.dev", true},
		{"CustomResourceDefinition", "hilbert-things.example.com", false},
		{"APIService", "v1alpha1.visibility.hilbert.dev", true},
		{"APIService", "v1alpha1.scheduling.hilbert.dev", false},
	} {
		if got := installed(c.kind, c.name); got != c.want {
			t.Errorf("%s %s: %v", c.kind, c.name, got)
		}
	}
}

// Every kind that deploy/ or the chart makes has a place where it is looked for.
func TestPlacesHaveAllKinds(t *testing.T) {
	known := map[string]bool{"Namespace": true, "HilbertConfiguration": true} // the namespace stays
	for _, place := range places {
		known[place.kind] = true
	}
	kind := regexp.MustCompile(`(?m)^kind: (\w+)`)
	seen := 0
	err := filepath.WalkDir("../../../deploy", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range kind.FindAllStringSubmatch(string(text), -1) {
			if seen++; !known[found[1]] {
				t.Errorf("%s makes a %s, which hilbert uninstall does not look for", path, found[1])
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d objects, %v", seen, err)
	}
}

// Of upstream's metrics APIs those go that lead to Hilbert, and others' stay.
func TestMetricsServicesOfOthersStay(t *testing.T) {
	there := map[string]string{
		"v1beta1.external.metrics.k8s.io": `{"spec":{"service":{"namespace":"keda","name":"keda-metrics"}},"status":{"conditions":[{"type":"Available","status":"True"}]}}`,
		"v1beta2.custom.metrics.k8s.io":   `{"spec":{"service":{"namespace":"own","name":"hilbert-metrics"}}}`,
	}
	list, err := metricsServices(t.Context(), func(_ context.Context, path string, v any) error {
		text, ok := there[filepath.Base(path)]
		if !ok {
			return apierrors.NewNotFound(schema.GroupResource{}, path)
		}
		return json.Unmarshal([]byte(text), v)
	})
	if err != nil || len(list) != 2 || !list[0].Available || list[1].Available {
		t.Fatalf("%+v %v", list, err)
	}
	if own := ownMetricsServices(list, "own"); len(own) != 1 || own[0].Name != "v1beta2.custom.metrics.k8s.io" || own[0].Path != apiServices+own[0].Name {
		t.Errorf("%+v", own)
	}
}
