package reach

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

const (
	// maxManifestPods bounds the pods of one file.
	maxManifestPods = 1_000_000
	// maxDocument bounds one document of it, in bytes.
	maxDocument = 4 << 20
)

// ReadManifests reads the pods that a YAML or JSON file would create, as Parser reads those of a cluster: pods, and the pods of Deployments,
// ReplicaSets, StatefulSets and Jobs. An unknown field is an error. What the API server would fill in is filled in where placement depends
// on it; a priority class cannot be resolved without one.
func ReadManifests(r io.Reader, schedulerName string, profiles map[string]uint8) ([]facts.Pod, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(r))
	parser := parse.NewParser(schedulerName, nil)
	parser.Profiles = profiles
	var out []facts.Pod
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil && len(document) > maxDocument {
			err = fmt.Errorf("%d bytes are too many (at most %d)", len(document), maxDocument)
		}
		if err == nil && blank(document) {
			continue
		}
		var pods []*corev1.Pod
		if err == nil {
			pods, err = manifestPods(decoder, document, maxManifestPods-len(out))
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		for _, pod := range pods {
			out = append(out, parser.Pod(pod))
		}
	}
}

// blank reports whether a document has nothing but comments.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

func manifestPods(decoder runtime.Decoder, document []byte, most int) ([]*corev1.Pod, error) {
	object, _, err := decoder.Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	switch o := object.(type) {
	case *corev1.Pod:
		pods = []*corev1.Pod{o}
	case *corev1.PodList:
		for i := range o.Items {
			pods = append(pods, &o.Items[i])
		}
	case *corev1.List:
		for i := range o.Items {
			more, err := manifestPods(decoder, o.Items[i].Raw, most-len(pods))
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			pods = append(pods, more...)
		}
		return pods, nil
	case *appsv1.Deployment:
		pods, err = replicas(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas, most)
	case *appsv1.ReplicaSet:
		pods, err = replicas(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas, most)
	case *appsv1.StatefulSet:
		pods, err = replicas(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas, most)
	case *batchv1.Job:
		pods, err = replicas(&o.ObjectMeta, &o.Spec.Template, o.Spec.Parallelism, most)
	default:
		return nil, fmt.Errorf("a %T creates no pods that can be read; write pods, Deployments, ReplicaSets, StatefulSets or Jobs", object)
	}
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if err := complete(pod); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	return pods, nil
}

// replicas makes the pods of a template.
func replicas(owner *metav1.ObjectMeta, template *corev1.PodTemplateSpec, count *int32, most int) ([]*corev1.Pod, error) {
	n := 1
	if count != nil {
		n = int(*count)
	}
	if n < 0 || n > most {
		return nil, fmt.Errorf("%s: %d replicas are too many", owner.Name, n)
	}
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pods[i].Name, pods[i].Namespace = fmt.Sprintf("%s-%d", owner.Name, i), owner.Namespace
	}
	return pods, nil
}

// complete fills in what the API server would, as far as placement depends on it, and a UID made of the name.
func complete(pod *corev1.Pod) error {
	if pod.Name == "" {
		return errors.New("it has no name")
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.UID = types.UID("added:" + pod.Namespace + "/" + pod.Name)
	if pod.Spec.Priority == nil && pod.Spec.PriorityClassName != "" {
		priority, ok := map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}[pod.Spec.PriorityClassName]
		if !ok {
			return fmt.Errorf("what the priority class %s means is not known here; write spec.priority beside it", pod.Spec.PriorityClassName)
		}
		pod.Spec.Priority = &priority
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			for name, limit := range c.Resources.Limits { // what has a limit and no request asks for the limit
				if _, ok := c.Resources.Requests[name]; !ok {
					if c.Resources.Requests == nil {
						c.Resources.Requests = corev1.ResourceList{}
					}
					c.Resources.Requests[name] = limit
				}
			}
			for j := range c.Ports {
				if pod.Spec.HostNetwork && c.Ports[j].HostPort == 0 {
					c.Ports[j].HostPort = c.Ports[j].ContainerPort
				}
			}
		}
	}
	if names := strings.TrimSpace(pod.Spec.SchedulerName); names == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	return nil
}
