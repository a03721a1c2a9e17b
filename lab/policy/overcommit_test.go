package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// Namespaces whose pods are created with smaller requests: by 150 %, by more than the cluster's 200 %, and by something that is no number.
const (
	over150  = "over-150"
	over900  = "over-900"
	overWord = "over-word"
)

// overNamespaces are their labels.
func overNamespaces() map[string]map[string]string {
	return map[string]map[string]string{
		over150: {spec.LabelOvercommitCPU: "150"}, over900: {spec.LabelOvercommitCPU: "900"}, overWord: {spec.LabelOvercommitCPU: "0200"},
	}
}

// makeOvercommit says what is safe in the cluster.
func makeOvercommit(ctx context.Context) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: spec.OvercommitConfigMap}, Data: map[string]string{spec.OvercommitCPUKey: "200"}}
	_, err := admin.CoreV1().ConfigMaps("hilbert-system").Create(ctx, m, metav1.CreateOptions{})
	return err
}

// lowers reports what a pod is stored as, and what is said of what it asked for.
func lowers(namespace, want, said string, parts ...part) func(context.Context) error {
	return func(ctx context.Context) error {
		made, err := owner.CoreV1().Pods(namespace).Create(ctx, pod("new", parts...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got, note := stored(made), made.Annotations[spec.AnnotationRequestedCPU]; got != want || note != said {
			return fmt.Errorf("it is stored as %q with the note %q, want %q and %q", got, note, want, said)
		}
		return nil
	}
}

// overcommitRows are pods where requests are lowered, and where not.
func overcommitRows() []request {
	row := func(name, namespace, want, said string, parts ...part) request {
		if !strings.Contains(want, "teed") && !strings.Contains(want, "millicpu") {
			want += "; Burstable"
		}
		return request{"over-commitment: " + name, lowers(namespace, want, said, parts...), ""}
	}
	half := main("cpu=1 memory=1Gi")
	return slices.Concat([]request{
		row("a namespace that has not opted in", plain, "main: cpu=1 memory=1Gi", "", half),
		row("by the namespace's percent", over150, "main: cpu=667m memory=1Gi", "main=1000m", half),
		row("by the cluster's, which is less", over900, "main: cpu=500m memory=1Gi", "main=1000m", half),
		row("by no number", overWord, "main: cpu=1 memory=1Gi", "", half),
		row("all kinds of containers", over150, "i0: cpu=2; i1: cpu=134m; main: cpu=667m / cpu=4; c1: memory=1M", "main=1000m,i0=3000m,i1=200m",
			first("cpu=3"), sidecar("cpu=200m"), main("cpu=1 / cpu=4"), beside("memory=1M")),
		row("with other annotations", over150, "main: cpu=1m", "main=1m", main("cpu=1m"), annotation("example.com/x", "y")),
		row("limits alone are requests", over150, "main: cpu=667m / cpu=1", "main=1000m", main("/ cpu=1")),
		row("without CPU", over150, "main: memory=1M", "", main("memory=1M")),
		row("Guaranteed", over150, "main: =cpu=1 memory=1Gi; Guaranteed", "", main("=cpu=1 memory=1Gi")),
		row("Guaranteed but for one container", over150, "main: cpu=667m memory=1Gi / cpu=1 memory=1Gi; c1: cpu=667m", "main=1000m,c1=1000m", main("=cpu=1 memory=1Gi"), beside("cpu=1")),
		row("resources of the pod as a whole", over150, "pod: cpu=2; main: cpu=1", "", whole("cpu=2"), main("cpu=1")),
		row("what was lowered before", over150, "main: cpu=1", "main=3000m", main("cpu=1"), annotation(spec.AnnotationRequestedCPU, "main=3000m")),
		row("a shared pod", over150, "main: cpu=667m", "main=1000m", main("cpu=1"), label(spec.LabelQoS, string(spec.QoSShared))),
		row("a shared pod bound to NUMA nodes", over150, "main: cpu=3", "", main("cpu=3"), annotation(spec.AnnotationNUMA, spec.NUMABound)),
		row("a pod bound by Katalyst's name", over150, "main: cpu=3", "", main("cpu=3"), annotation(spec.AnnotationKatalystMemory, `{"numa_binding": "true"}`)),
		row("a pod that says it is not bound", over150, "main: cpu=2", "main=3000m", main("cpu=3"), annotation(spec.AnnotationKatalystMemory, `{"numa_binding": "false"}`)),
		row("a reclaimed pod", over150, "main: cpu=0 millicpu=1k / millicpu=1k", "", main("cpu=1"), label(spec.LabelQoS, string(spec.QoSReclaimed))),
		row("a critical pod", over150, "main: cpu=1", "", main("cpu=1"), func(_ *metav1.ObjectMeta, p *corev1.PodSpec) { p.PriorityClassName = "system-cluster-critical" }),
	}, []request{{"over-commitment: a mirror by its node", func(ctx context.Context) error {
		made, err := node.CoreV1().Pods(over150).Create(ctx, pod("new", main("cpu=1"), onNode("n1"), annotation("kubernetes.io/config.mirror", "x")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && stored(made) != "main: cpu=1; Burstable" {
			return fmt.Errorf("it is stored as %q", stored(made))
		}
		return err
	}, ""}})
}
