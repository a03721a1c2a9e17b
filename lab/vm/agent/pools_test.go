package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/topology"
)

// TestPools: who shares shares with his own only; pools are as large as what is asked of them; reclaimed pods have a core in each NUMA node, off
// everybody else's, and are idle where the kernel heeds it and nowhere else; system pods have the reserved core.
func TestPools(t *testing.T) {
	r := newRig(t)
	pods := r.run(
		r.pod("ads-one", requests("1"), annotated(spec.AnnotationPool, "ads")),
		r.pod("ads-two", requests("500m"), annotated(spec.AnnotationPool, "ads")),
		r.pod("shared", requests("500m")),
		r.pod("unsaid"),
		r.pod("reclaimed", level(spec.QoSReclaimed)),
		r.pod("system", level(spec.QoSSystem)),
		r.dedicated("own", "1", "64Mi", spec.NUMABound),
	)
	var k *kernel
	var sets []topology.CPUSet
	r.eventually(tick+slack, "all are placed", func() error {
		k, sets = r.sees(), nil
		for _, p := range pods {
			cpus, _, err := k.where(p)
			if err != nil {
				return err
			}
			sets = append(sets, cpus)
		}
		if sets[0] != sets[1] || sets[2] != sets[3] {
			return fmt.Errorf("those of one pool have %v", sets)
		}
		return nil
	})
	ads, share, reclaimed, system, own := sets[0], sets[2], sets[4], sets[5], sets[6]
	t.Logf("ads %v, share %v, reclaimed %v, system %v, dedicated %v", ads, share, reclaimed, system, own)
	if ads.Len() != 2 || share.IsEmpty() || own.Len() != 1 {
		t.Errorf("ads has %v, want 2 cores for its 1.5; share has %v, want the rest; the dedicated pod %v, want 1", ads, share, own)
	}
	disjoint := map[string]topology.CPUSet{"ads": ads, "share": share, "reclaimed": reclaimed, "system": system, "dedicated": own}
	for a, x := range disjoint {
		for b, y := range disjoint {
			if a < b && !x.Intersection(y).IsEmpty() {
				t.Errorf("%s and %s both have %v", a, b, x.Intersection(y))
			}
		}
	}
	for numa := range vm.Nodes {
		if reclaimed.Intersection(r.numa(numa)).IsEmpty() {
			t.Errorf("reclaimed has %v, none of NUMA node %d", reclaimed, numa)
		}
	}
	if want := topology.CPUs(0); system != want {
		t.Errorf("the system pod has %v, want the reserved %v", system, want)
	}
	r.idles(k, string(pods[4].UID))
	r.reported("the BestEffort pod that says nothing", func(o *v1alpha1.CustomNodeResource) error {
		if c := condition(o, spec.ConditionQoSUnsaid); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "unsaid") {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	r.remove(pods[4])
	took := r.eventually(tick+slack, "share has what was reclaimed", func() error {
		cpus, _, err := r.sees().where(pods[2])
		if err == nil && !reclaimed.Minus(cpus).IsEmpty() {
			err = fmt.Errorf("it has %v", cpus)
		}
		return err
	})
	t.Logf("share has the reclaimed pool's cores %s after its last pod went", took)
}

// TestHostilePools: 40 pods that request 10m, and 13 that request nothing, each in a pool of a name of its own. An online pod that requests five of the seven CPUs
// keeps them all the while, off the reserved one; so does another with a pool that its requests fill. The names are worth no CPU.
func TestHostilePools(t *testing.T) {
	long(t)
	r := newRig(t)
	const share, own, small, nothing, atOnce = 4, 1, 40, 13, 10
	kept := r.run(r.pod("share", requests(fmt.Sprint(share))), r.pod("own", requests(fmt.Sprint(own)), annotated(spec.AnnotationPool, "own")))
	var hostile []*corev1.Pod
	for i := range small + nothing {
		p := r.pod(fmt.Sprintf("hostile-%d", i), annotated(spec.AnnotationPool, fmt.Sprintf("p%d", i)), level(spec.QoSShared))
		if i < small {
			requests("10m")(p)
		}
		hostile = append(hostile, p)
	}
	keep := func() (sets [2]topology.CPUSet) {
		t.Helper()
		k := r.sees()
		for i, least := range []int{share, own} {
			cpus, _, err := k.where(kept[i])
			if err != nil || cpus.Len() < least || cpus.Has(0) {
				t.Fatalf("pod %s requests %d CPUs and has %v, %v; CPU 0 is reserved", kept[i].Name, least, cpus, err)
			}
			sets[i] = cpus
		}
		return sets
	}
	before := keep()
	for wave := range slices.Chunk(hostile, atOnce) {
		r.run(wave...)
		now := keep()
		t.Logf("beside %s: share has %v, own %v; before %v and %v", wave[len(wave)-1].Name, now[0], now[1], before[0], before[1])
	}
	r.always(2*tick, "the others keep what they request", func() error { keep(); return nil })
	k, now := r.sees(), keep()
	for _, p := range hostile {
		p, err := r.Client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if cpus, _, err := k.where(p); err != nil || cpus != now[0] {
			t.Errorf("pod %s has %v, %v; want %v, what share has", p.Name, cpus, err, now[0])
		}
	}
}

// idles fails the test unless just that pod is idle, and none of its containers.
func (r *rig) idles(k *kernel, uid string) {
	r.t.Helper()
	for other, pod := range k.pods {
		if want := map[bool]string{true: "1", false: "0"}[other == uid]; pod.idle != want {
			r.t.Errorf("%s: cpu.idle is %s, want %s", pod.dir, pod.idle, want)
		}
		for _, g := range pod.groups {
			if g.idle != "0" {
				r.t.Errorf("%s: cpu.idle is %s, want it on no container", g.dir, g.idle)
			}
		}
	}
	for _, dir := range []string{kubepods, kubepods + "/besteffort", kubepods + "/burstable"} {
		if got, err := r.Guest.Field(r.t.Context(), dir+"/cpu.idle"); err != nil || got != "0" {
			r.t.Errorf("%s: cpu.idle is %s, %v, want 0", dir, got, err)
		}
	}
	if got, err := r.Guest.Field(r.t.Context(), kubepods+"/besteffort/cpu.weight"); err != nil || got != "1" {
		r.t.Errorf("kubepods/besteffort: cpu.weight is %s, %v; want 1, the kubelet's", got, err)
	}
}
