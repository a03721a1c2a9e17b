package crash

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/lab/hollow"
)

// TestJudge: a judge that finds nothing wrong proves something only if it finds what is wrong.
func TestJudge(t *testing.T) {
	pod := func(name, node, cpu, gpuMilli, gpus string) *corev1.Pod {
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}}}
		if gpuMilli != "" {
			requests[hollow.ResourceGPUMilli] = resource.MustParse(gpuMilli)
			p.Annotations[annotationGPUs] = gpus
		}
		p.Spec.NodeName = node
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
		return p
	}
	for name, test := range map[string]struct {
		pods  []*corev1.Pod
		bound int
		want  string // in the only breach; "" for none
	}{
		"fits exactly":      {[]*corev1.Pod{pod("a", "n", "1", "", ""), pod("b", "n", "1", "", "")}, 2, ""},
		"seen twice":        {[]*corev1.Pod{pod("a", "n", "2", "", ""), pod("a", "n", "2", "", "")}, 1, ""},
		"not bound":         {[]*corev1.Pod{pod("a", "", "9", "", "")}, 0, ""},
		"too much CPU":      {[]*corev1.Pod{pod("a", "n", "1500m", "", ""), pod("b", "n", "501m", "", "")}, 2, "takes cpu of n to 2001 of 2000"},
		"too many pods":     {[]*corev1.Pod{pod("a", "n", "0", "", ""), pod("b", "n", "0", "", ""), pod("c", "n", "0", "", ""), pod("d", "n", "0", "", "")}, 4, "takes pods"},
		"moved":             {[]*corev1.Pod{pod("a", "n", "1", "", ""), pod("a", "m", "1", "", "")}, 1, "moved from n to m"},
		"no such node":      {[]*corev1.Pod{pod("a", "x", "1", "", "")}, 1, "is no node"},
		"GPUs side by side": {[]*corev1.Pod{pod("a", "n", "0", "600", "0:600"), pod("b", "n", "0", "600", "1:600")}, 2, ""},
		"one GPU twice":     {[]*corev1.Pod{pod("a", "n", "0", "600", "1:600"), pod("b", "n", "0", "600", "1:600")}, 2, "takes GPU 1 of n to 1200"},
		"GPU not named":     {[]*corev1.Pod{pod("a", "n", "0", "600", "")}, 1, `GPUs ""`},
		"no such GPU":       {[]*corev1.Pod{pod("a", "n", "0", "600", "2:600")}, 1, `GPUs "2:600"`},
		"less than asked":   {[]*corev1.Pod{pod("a", "n", "0", "600", "1:500")}, 1, `GPUs "1:500", want 600`},
		"the whole GPU":     {[]*corev1.Pod{pod("a", "n", "0", "600", "1")}, 1, `GPUs "1", want 600`},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.addNodes([]hollow.Shape{
				{Name: "n", Allocatable: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3"),
					hollow.ResourceGPU: resource.MustParse("2"), hollow.ResourceGPUMilli: resource.MustParse("2k"),
				}},
				{Name: "m", Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3")}},
			})
			for _, p := range test.pods {
				l.see(p)
			}
			bound, breaches, _ := l.count()
			if bound != test.bound {
				t.Errorf("bound: got %d, want %d", bound, test.bound)
			}
			found := fmt.Sprint(breaches)
			if (test.want == "") != (len(breaches) == 0) || len(breaches) > 1 || !strings.Contains(found, test.want) {
				t.Errorf("breaches: got %s, want %q", found, test.want)
			}
		})
	}
}
