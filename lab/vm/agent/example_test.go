package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/examples"
	"hilbert.dev/hilbert/lab/vm/join"
)

// TestExample runs examples/node.yaml as it stands, but for the registry that the guest cannot reach, and logs what docs/concepts/node.md shows of it.
func TestExample(t *testing.T) {
	long(t)
	r := newRig(t)
	pods := r.run(r.examples()...)
	byName := make(map[string]*corev1.Pod)
	for _, p := range pods {
		byName[p.Name] = p
	}
	k := r.sees()
	index := r.asPromised(k, byName["index"], 2)
	ranker, _ := r.places(byName["ranker"])
	numa, _, err := k.where(byName["ranker"])
	if err != nil || !index.Intersection(ranker).IsEmpty() {
		t.Errorf("index has %v, ranker %v: %v", index, ranker, err)
	}
	if err := k.alone(byName["ranker"], numa); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"top", "nodes"}, {"top", "pods", "-n", "search"}} {
		t.Logf("hilbert %v\n%s", args, r.hilbert(args...))
	}
}

// examples are the pods of the file; what else it has is created.
func (r *rig) examples() (pods []*corev1.Pod) {
	r.t.Helper()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(examples.Node)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return pods
		}
		if err != nil {
			r.t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		switch o := object.(type) {
		case *corev1.Namespace:
			if _, err := r.Client.CoreV1().Namespaces().Create(r.t.Context(), o, metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		case *corev1.Pod:
			grace := int64(1)
			o.Spec.TerminationGracePeriodSeconds = &grace
			o.Spec.Containers[0].Image, o.Spec.Containers[0].ImagePullPolicy = join.PauseImage, corev1.PullNever
			pods = append(pods, o)
		default:
			r.t.Fatalf("%T: %v", object, err)
		}
	}
}

// hilbert is what the command says to the administrator.
func (r *rig) hilbert(args ...string) string {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := r.Plane.WriteKubeconfig(path); err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	root := command.New()
	root.SetArgs(append(args, "--kubeconfig", path))
	root.SetOut(&out)
	if err := root.ExecuteContext(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return out.String()
}
