package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

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
		row("by the namespace's percent", over150, "main: cpu=667m memory=1Gi", "main=1000m at 150%", half),
		row("by the cluster's, which is less", over900, "main: cpu=500m memory=1Gi", "main=1000m at 200%", half),
		row("by no number", overWord, "main: cpu=1 memory=1Gi", "", half),
		row("all kinds of containers", over150, "i0: cpu=2; i1: cpu=134m; main: cpu=667m / cpu=4; c1: memory=1M", "main=1000m,i0=3000m,i1=200m at 150%",
			first("cpu=3"), sidecar("cpu=200m"), main("cpu=1 / cpu=4"), beside("memory=1M")),
		row("with other annotations", over150, "main: cpu=1m", "main=1m at 150%", main("cpu=1m"), annotation("example.com/x", "y")),
		row("limits alone are requests", over150, "main: cpu=667m / cpu=1", "main=1000m at 150%", main("/ cpu=1")),
		row("without CPU", over150, "main: memory=1M", "", main("memory=1M")),
		row("Guaranteed", over150, "main: =cpu=1 memory=1Gi; Guaranteed", "", main("=cpu=1 memory=1Gi")),
		row("Guaranteed but for one container", over150, "main: cpu=667m memory=1Gi / cpu=1 memory=1Gi; c1: cpu=667m", "main=1000m,c1=1000m at 150%", main("=cpu=1 memory=1Gi"), beside("cpu=1")),
		row("resources of the pod as a whole", over150, "pod: cpu=2; main: cpu=1", "", whole("cpu=2"), main("cpu=1")),
		row("what was lowered before", over150, "main: cpu=1", "main=3000m at 150%", main("cpu=1"), annotation(spec.AnnotationRequestedCPU, "main=3000m at 150%")),
		row("a shared pod", over150, "main: cpu=667m", "main=1000m at 150%", main("cpu=1"), label(spec.LabelQoS, string(spec.QoSShared))),
		row("a shared pod bound to NUMA nodes", over150, "main: cpu=3", "", main("cpu=3"), annotation(spec.AnnotationNUMA, spec.NUMABound)),
		row("a pod bound by Katalyst's name", over150, "main: cpu=3", "", main("cpu=3"), annotation(spec.AnnotationKatalystMemory, `{"numa_binding": "true"}`)),
		row("a pod that says it is not bound", over150, "main: cpu=2", "main=3000m at 150%", main("cpu=3"), annotation(spec.AnnotationKatalystMemory, `{"numa_binding": "false"}`)),
		row("a reclaimed pod", over150, "main: cpu=0 millicpu=1k / millicpu=1k", "", main("cpu=1"), label(spec.LabelQoS, string(spec.QoSReclaimed))),
		row("a critical pod", over150, "main: cpu=1", "", main("cpu=1"), func(_ *metav1.ObjectMeta, p *corev1.PodSpec) { p.PriorityClassName = "system-cluster-critical" }),
	}, []request{{"over-commitment: a mirror by its node", func(ctx context.Context) error {
		made, err := node.CoreV1().Pods(over150).Create(ctx, pod("new", main("cpu=1"), onNode("n1"), annotation("kubernetes.io/config.mirror", "x")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && stored(made) != "main: cpu=1; Burstable" {
			return fmt.Errorf("it is stored as %q", stored(made))
		}
		return err
	}, ""}}, requestedRows())
}

// requestedRows are pods that bring the annotation themselves.
func requestedRows() []request {
	says := func(namespace, said string) func(context.Context) error {
		return creates(owner, namespace, main("cpu=1"), annotation(spec.AnnotationRequestedCPU, said))
	}
	const spelling = "it is not spelled as main=1000m at 150%"
	more := func(at, most string) string {
		return at + "% is more than the " + most + "% that CPU requests are lowered by"
	}
	mirror := func(ctx context.Context) error {
		_, err := node.CoreV1().Pods(over150).Create(ctx, pod("new", onNode("n1"), annotation("kubernetes.io/config.mirror", "x"), annotation(spec.AnnotationRequestedCPU, "main=1m at 900%")),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	return []request{
		{"requested CPU: no more, in a namespace that has not opted in", says(plain, "main=1000m at 100%"), ""},
		{"requested CPU: more than is lowered in a namespace that has not opted in", says(plain, "main=1000m at 101%"), more("101", "100")},
		{"requested CPU: as the namespace's percent", says(over150, "main=1500m at 150%"), ""},
		{"requested CPU: more than the namespace's percent, which is less than the cluster's", says(over150, "main=1500m at 151%"), more("151", "150")},
		{"requested CPU: as the cluster's percent", says(over900, "main=2000m at 200%"), ""},
		{"requested CPU: more than the cluster's percent, which is less than the namespace's", says(over900, "main=2000m at 201%"), more("201", "200")},
		{"requested CPU: where the namespace's percent is no number", says(overWord, "main=1000m at 101%"), more("101", "100")},
		{"requested CPU: without a percent", says(over150, "main=1500m"), spelling},
		{"requested CPU: a percent with a sign", says(over150, "main=1500m at +150%"), spelling},
		{"requested CPU: a percent with a zero", says(over150, "main=1500m at 0150%"), spelling},
		{"requested CPU: two percents", says(over150, "main=1500m at 900% at 150%"), spelling},
		{"requested CPU: less than all", says(over150, "main=500m at 99%"), spelling},
		{"requested CPU: nothing", says(over150, ""), spelling},
		{"requested CPU: a mirror by its node", mirror, ""},
	}
}

// TestWithoutClusterPercent: without the ConfigMap nothing is lowered, the namespace's percent alone bounds what pods bring, and pods are created.
func TestWithoutClusterPercent(t *testing.T) {
	says := func(percent string) func(context.Context) error {
		return creates(owner, over900, main("cpu=1"), annotation(spec.AnnotationRequestedCPU, "main=9000m at "+percent))
	}
	if err := admin.CoreV1().ConfigMaps("hilbert-system").Delete(t.Context(), spec.OvercommitConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rows := []request{
		{"a pod", lowers(over900, "main: cpu=1; Burstable", "", main("cpu=1")), ""},
		{"as the namespace's percent", says("900%"), ""},
		{"more", says("901%"), "901% is more than the 900%"},
	}
	if err := poll(t.Context(), survival, func() error { return firstWrong(t.Context(), rows) }); err != nil {
		t.Error(err)
	}
	if err := makeOvercommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), patience, func() error { return firstWrong(t.Context(), overcommitRows()) }); err != nil {
		t.Fatalf("after it was put back: %v", err)
	}
}
