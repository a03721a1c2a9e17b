package parse

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/topology"
)

// dedicated is a pod of ours with a level, requests and annotations, by key and value.
func dedicated(level string, requests corev1.ResourceList, annotations ...string) *corev1.Pod {
	return ours(func(p *corev1.Pod) {
		p.Labels = map[string]string{"hilbert.dev/qos-level": level}
		p.Spec.Containers[0].Resources.Requests = requests
		p.Annotations = make(map[string]string)
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
	})
}

func TestNUMARequest(t *testing.T) {
	p := NewParser("hilbert", nil) // one, so that what it remembers is tested too
	for _, c := range []struct {
		name       string
		pod        *corev1.Pod
		want       topology.NUMARequest
		impossible string
	}{
		{"no level", dedicated("", list("cpu", "2")), topology.NUMARequest{}, ""},
		{"shared", dedicated("shared_cores", list("cpu", "2")), topology.NUMARequest{}, ""},
		{"dedicated", dedicated("dedicated_cores", list("cpu", "2")), topology.NUMARequest{CPUs: 2}, ""},
		{
			"bound", dedicated("dedicated_cores", list("cpu", "2000m", "memory", "1048577"), "hilbert.dev/numa", "bound"),
			topology.NUMARequest{CPUs: 2, Binding: topology.Bound, Memory: 2},
			"",
		},
		{
			"exclusive", dedicated("dedicated_cores", list("cpu", "2", "memory", "1Gi"), "hilbert.dev/numa", "exclusive"),
			topology.NUMARequest{CPUs: 2, Binding: topology.Exclusive, Memory: 1024},
			"",
		},
		{
			"Katalyst's names",
			dedicated("", list("cpu", "3"), "katalyst.kubewharf.io/qos_level", "dedicated_cores", "katalyst.kubewharf.io/memory_enhancement", `{"numa_binding":"true"}`),
			topology.NUMARequest{CPUs: 3, Binding: topology.Bound},
			"",
		},
		{"no request", dedicated("dedicated_cores", nil), topology.NUMARequest{}, "needs a cpu request of 1 or more"},
		{"part of a CPU", dedicated("dedicated_cores", list("cpu", "2500m")), topology.NUMARequest{}, "request 3 instead of 2500m"},
		{"too many", dedicated("dedicated_cores", list("cpu", "70k")), topology.NUMARequest{}, "a node has at most"},
		{"absurd memory", dedicated("dedicated_cores", list("cpu", "1", "memory", "8E"), "hilbert.dev/numa", "bound"), topology.NUMARequest{}, "no NUMA node has as much"},
		{"unknown level", dedicated("own_cores", list("cpu", "2")), topology.NUMARequest{}, "hilbert.dev/qos-level"},
		{"unknown binding", dedicated("dedicated_cores", list("cpu", "2"), "hilbert.dev/numa", "near"), topology.NUMARequest{}, "hilbert.dev/numa"},
		{
			"shared and bound", dedicated("shared_cores", list("cpu", "1500m", "memory", "1048577"), "hilbert.dev/numa", "bound"),
			topology.NUMARequest{CPUs: 2, Binding: topology.BoundShared, Memory: 2},
			"",
		},
		{"bound without a level", dedicated("", list("cpu", "1m"), "hilbert.dev/numa", "bound"), topology.NUMARequest{CPUs: 1, Binding: topology.BoundShared}, ""},
		{"shared, bound, and without CPU", dedicated("shared_cores", list("memory", "1Gi"), "hilbert.dev/numa", "bound"), topology.NUMARequest{}, "needs a cpu request"},
		{"shared, bound, with absurd CPU", dedicated("shared_cores", list("cpu", "2000000"), "hilbert.dev/numa", "bound"), topology.NUMARequest{}, "a node has at most"},
		{"shared, bound, with absurd memory", dedicated("shared_cores", list("cpu", "1", "memory", "8E"), "hilbert.dev/numa", "bound"), topology.NUMARequest{}, "no NUMA node has as much"},
		{
			"dedicated, loads the memory", dedicated("dedicated_cores", list("cpu", "2"), "hilbert.dev/memory-bandwidth", "intensive"),
			topology.NUMARequest{CPUs: 2, Bandwidth: topology.BandwidthIntensive},
			"",
		},
		{
			"shared, bound, and suffers", dedicated("", list("cpu", "2"), "hilbert.dev/numa", "bound", "hilbert.dev/memory-bandwidth", "sensitive"),
			topology.NUMARequest{CPUs: 2, Binding: topology.BoundShared, Bandwidth: topology.BandwidthSensitive},
			"",
		},
		{"shared, loads the memory", dedicated("", list("cpu", "2"), "hilbert.dev/memory-bandwidth", "intensive"), topology.NUMARequest{}, ""},
		{"shared, suffers", dedicated("", list("cpu", "2"), "hilbert.dev/memory-bandwidth", "sensitive"), topology.NUMARequest{}, "hilbert.dev/memory-bandwidth: only a pod of level"},
		{"shared and alone", dedicated("shared_cores", list("cpu", "2"), "hilbert.dev/numa", "exclusive"), topology.NUMARequest{}, "no NUMA node alone"},
		{"reclaimed and bound", dedicated("reclaimed_cores", list("cpu", "2"), "hilbert.dev/numa", "bound"), topology.NUMARequest{}, "hilbert.dev/numa"},
	} {
		r := p.Pod(c.pod).Requirements
		if r.NUMANodes != c.want || (c.impossible == "") != (r.Impossible == "") || !strings.Contains(r.Impossible, c.impossible) {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, r.NUMANodes, r.Impossible, c.want, c.impossible)
		}
		foreign := c.pod.DeepCopy()
		foreign.Spec.SchedulerName, foreign.Spec.NodeName = "other", "n1"
		if r := p.Pod(foreign).Requirements; r.NUMANodes != c.want || r.Impossible != "" {
			t.Errorf("%s, of another scheduler: %+v, %q", c.name, r.NUMANodes, r.Impossible)
		}
	}
}

func TestNUMAOfBoundPod(t *testing.T) {
	p, unreadable := NewParser("hilbert", nil), 0
	p.OnUnreadablePromise = func() { unreadable++ }
	numaNodes := func(level, text string) topology.NUMAGrant {
		pod := dedicated(level, list("cpu", "3", "memory", "1Gi"), "hilbert.dev/numa", "bound", "hilbert.dev/numa-nodes", text)
		if level == "" {
			delete(pod.Annotations, "hilbert.dev/numa")
		}
		pod.Spec.NodeName = "n1"
		return p.Pod(pod).Grant.NUMANodes
	}
	if got := numaNodes("dedicated_cores", "0:2/512Mi,1:2/512Mi").String(); got != "0:2/512Mi,1:2/512Mi" {
		t.Errorf("got %s", got)
	}
	for i, bad := range []string{"", "x", "0:2/1024Mi", "0:4", "0:4/512Mi", "9:4/1024Mi"} {
		if got := numaNodes("dedicated_cores", bad); !got.IsZero() || unreadable != i+1 {
			t.Errorf("%q: got %s, told %d times", bad, got, unreadable)
		}
	}
	if got := numaNodes("", "0:4/1024Mi"); !got.IsZero() {
		t.Errorf("a shared pod is granted %s", got)
	}
	if unreadable != 6 {
		t.Errorf("told %d times of what cannot be read", unreadable)
	}
}

// The fingerprint shows that a pod was promised other NUMA nodes.
func TestFingerprintTellsNUMANodes(t *testing.T) {
	told := 0
	parser, seen := NewParser("hilbert", nil), NewFingerprints()
	for _, text := range []string{"0:2", "0:2", "1:2", "1:4"} {
		pod := dedicated("dedicated_cores", list("cpu", "2"), "hilbert.dev/numa-nodes", text)
		pod.Spec.NodeName = "n1"
		facts := parser.Pod(pod)
		if seen.Changed(facts.UID, seen.Of(&facts, parser.Serial())) {
			told++
		}
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
}
