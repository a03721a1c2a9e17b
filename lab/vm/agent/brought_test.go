package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
)

const (
	// brings is the service of the plugin that brings cards to the node, hotCard the file that is there while its first card runs hot.
	brings, hotCard = "node-plugin", "/run/card-hot"
	// cards are the NUMA nodes of its cards, cardDevice what a container gets of one.
	cards      = "0,0,1"
	cardDevice = "/dev/fpga0"
)

// card has a pod ask for a card.
func card(p *corev1.Pod) {
	r := &p.Spec.Containers[0].Resources
	for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[join.PluginResource] = resource.MustParse("1")
	}
}

// cardOf is the card that a pod's process has been told of. It fails the test unless the container has the device, too.
func (r *rig) cardOf(p *corev1.Pod) (name string, numa int) {
	r.t.Helper()
	pids, err := r.PIDs(r.t.Context(), p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	said, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf("tr '\\0' '\\n' </proc/%[1]d/environ | grep ^FPGA_CARDS=; busybox stat -c '%%F %%t:%%T' /proc/%[1]d/root%[2]s", pids[0], cardDevice))
	if err != nil {
		r.t.Fatalf("pod %s has no card: %v\n%s", p.Name, err, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	var number int
	if _, err := fmt.Sscanf(lines[0], "FPGA_CARDS=card-%d", &number); err != nil || len(lines) != 2 || lines[1] != "character special file 1:3" {
		r.t.Fatalf("pod %s has %q (%v), want one card and its device file", p.Name, lines, err)
	}
	return fmt.Sprint("card-", number), int(strings.Split(cards, ",")[number][0] - '0')
}

// offered is nil when the report has so many cards of the plugin, so many of them held, and it serves or not.
func offered(o *v1alpha1.CustomNodeResource, amount, held int64, serves bool) error {
	if len(o.Status.Resources) != 1 {
		return fmt.Errorf("there are %+v", o.Status.Resources)
	}
	c := &o.Status.Resources[0]
	var has int64
	for _, numa := range c.NUMANodes {
		has += numa.Held
	}
	if c.Name != join.PluginResource || c.Amount != amount || serves && has != held || serves != (c.Message == "") {
		return fmt.Errorf("it is %+v", c)
	}
	return nil
}

// TestPluginBringsCards: a process of its own brings cards to a node with a stock kubelet. Pods that ask for one have it, each its own; one that has to be on one NUMA node has its
// CPUs beside its card. Killed, or gone for a while, the plugin harms who asks for a card then, and nobody else; what pods hold is known after it.
func TestPluginBringsCards(t *testing.T) {
	long(t)
	r := newRig(t)
	r.bringCards("plugins: {enabled: true, interval: 1s}, writeInterval: 1s, lending: {enabled: false}")
	pods := r.run(
		r.pod("web", requests("500m"), card),
		r.pod("own", level(spec.QoSDedicated), annotated(spec.AnnotationNUMA, spec.NUMABound), annotated(spec.AnnotationNUMAPolicy, spec.NUMAPolicySingle), asks("1", "64Mi"), card),
		r.pod("plain", requests("100m")),
	)
	web, own := pods[0], pods[1]
	webs, _ := r.cardOf(web)
	owns, near := r.cardOf(own)
	if webs == owns {
		t.Errorf("both pods have %s", webs)
	}
	if cpus, _ := r.places(own); !cpus.Minus(r.numa(near)).IsEmpty() {
		t.Errorf("pod own has %s of NUMA node %d, and CPUs %v", owns, near, cpus)
	}
	unchanged := r.stay(pods)

	// A crash: it starts again, and is told who has what.
	if _, err := r.Guest.Signal(t.Context(), join.PluginProgram, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	later := r.run(r.pod("later", requests("100m"), card))[0]
	if has, _ := r.cardOf(later); has == webs || has == owns {
		t.Errorf("after the crash pod later has %s, which another pod holds", has)
	}
	r.reported("what pods hold after the crash", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 3, true) })
	r.remove(later)
	r.reported("what was released", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 2, true) })

	// It is gone: who asks for a card then waits, others start.
	if err := r.Guest.Service(brings).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reported("the plugin is gone", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 2, 2, false) })
	waits := r.create(r.pod("waits", requests("100m"), card))
	other := r.run(r.pod("other", requests("100m")), r.dedicated("new", "1", "64Mi", spec.NUMABound))
	r.always(2*tick, "who waits for a card waits, and nothing else changes", func() error {
		now, err := r.Client.CoreV1().Pods(waits.Namespace).Get(t.Context(), waits.Name, metav1.GetOptions{})
		if err == nil && containerID(now) != "" {
			err = errors.New("the pod that asks for a card runs")
		}
		k, looked := r.look()
		if looked == nil {
			_, _, looked = k.where(own)
		}
		return errors.Join(err, looked)
	})
	r.remove(other...)
	r.eventually(tick+slack, "all is as it was", unchanged)
	if err := r.Guest.Service(brings).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits = r.awaitRunning(waits)
	if has, _ := r.cardOf(waits); has == webs || has == owns {
		t.Errorf("pod waits has %s, which another pod holds", has)
	}
}

// bringCards has the plugin run until the test ends, and the agent know of it by its configuration.
func (r *rig) bringCards(configuration string) {
	r.t.Helper()
	r.reconfigure("lending: {enabled: false}", configuration)
	if err := r.StartPlugin(r.t.Context(), root, brings, cards, "-hot", hotCard); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Guest.Service(brings).Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(r.Guest.Service(brings).Stop(ctx), r.Guest.WriteString(ctx, hotCard, ""), r.Guest.Remove(ctx, hotCard)); err != nil {
			r.t.Error(err)
		}
	})
	r.reported("the plugin serves", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 0, true) })
}

// TestPluginDetects: while its first card runs hot, the reclaimed pod that holds it has to go, by the node's request and the scheduler's eviction; once, and nobody else.
func TestPluginDetects(t *testing.T) {
	long(t)
	r := newRig(t)
	r.bringCards("plugins: {enabled: true, interval: 1s}, writeInterval: 1s, kubeletThresholds: File, eviction: {plugins: {for: 4s}}, lending: {refreshInterval: 10s}")
	first := r.run(r.pod("first", level(spec.QoSReclaimed), card))[0]
	if has, _ := r.cardOf(first); has != "card-0" {
		t.Fatalf("the first pod has %s, want the first card", has)
	}
	pods := r.run(r.pod("second", level(spec.QoSReclaimed), card), r.pod("web", requests("100m"), card), r.pod("bare", level(spec.QoSReclaimed)))
	found := func(status metav1.ConditionStatus) func(o *v1alpha1.CustomNodeResource) error {
		return func(o *v1alpha1.CustomNodeResource) error {
			if c := condition(o, spec.ConditionPluginFinding); c.Status != status {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		}
	}
	r.reported("nothing is found", found(metav1.ConditionFalse))
	if err := r.Guest.WriteString(t.Context(), hotCard, ""); err != nil {
		t.Fatal(err)
	}
	r.reported("the card runs hot", found(metav1.ConditionTrue))
	took := r.eventually(patience, "the pod that holds it is evicted", func() error {
		now, err := r.Client.CoreV1().Pods(first.Namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != first.UID:
			return nil
		case err == nil:
			err = errors.New("it is still there")
		}
		return err
	})
	t.Logf("the pod was gone %.0f s after the card was seen to run hot", took.Seconds())
	r.told(first, spec.ReasonEvictedForPressure)
	r.always(4*tick, "nobody else goes", func() error {
		for _, p := range pods {
			now, err := r.Client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
			if err == nil && now.DeletionTimestamp != nil {
				err = fmt.Errorf("pod %s has to go", p.Name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := r.Guest.Remove(t.Context(), hotCard); err != nil {
		t.Fatal(err)
	}
	r.reported("the card is cool", found(metav1.ConditionFalse))
}
