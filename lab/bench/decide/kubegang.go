package decide

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	typedschedulingv1beta1 "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	scenarios "hilbert.dev/hilbert/bench"
)

// kubeGang is a PodGroup and its pods.
type kubeGang struct {
	group  *schedulingv1beta1.PodGroup
	class  int
	pods   []*corev1.Pod // that are bound or failed
	failed int           // of them
}

// kubeGangs is what a kubeSide of gangs knows beside its pods. kubeSide's mutex guards it.
type kubeGangs struct {
	members int
	known   map[string]*kubeGang // by the name of the PodGroup
	ring    []*kubeGang          // whole, the oldest first
	broken  []*kubeGang          // every pod was attempted and one at least failed: to be given up
}

// enableGangs turns upstream's gang scheduling on in this process and returns how to undo it.
func enableGangs() (restore func(), err error) {
	was := utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload)
	set := func(on bool) error {
		return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.GenericWorkload): on})
	}
	if err := set(true); err != nil {
		return nil, fmt.Errorf("turn upstream's gangs on: %w", err)
	}
	return func() { _ = set(was) }, nil // it was valid before
}

// fillGangs puts the gangs, whose members stand side by side, on their nodes.
func (k *kubeSide) fillGangs(pods []placed) error {
	for ; len(pods) > 0; pods = pods[k.gangs.members:] {
		g := k.newGang(pods[0].class)
		k.scheduler.Cache.AddPodGroup(g.group)
		k.scheduler.SchedulingQueue.AddPodGroup(klog.Logger{}, g.group)
		for i := range k.gangs.members {
			pod := k.member(g)
			pod.Spec.NodeName = pods[i].node
			if err := k.bound(pod); err != nil {
				return err
			}
			g.pods = append(g.pods, pod)
		}
		k.gangs.ring = append(k.gangs.ring, g)
	}
	return nil
}

func (k *kubeSide) newGang(class int) *kubeGang {
	name := gangName(k.created)
	g := &kubeGang{class: class, group: &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenarios.Namespace, Name: name, UID: types.UID(name)},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(k.gangs.members)},
		}},
	}}
	k.mu.Lock()
	k.gangs.known[name] = g
	k.mu.Unlock()
	return g
}

func (k *kubeSide) member(g *kubeGang) *corev1.Pod {
	pod := k.pod(g.class, 0)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.group.Name}
	return pod
}

// feedGang is hilbertSide.nextGang up to the queue: what upstream's event handlers do.
func (k *kubeSide) feedGang() error {
	k.mu.Lock()
	broken := k.gangs.broken
	k.gangs.broken = nil
	if len(k.gangs.ring) == 0 {
		k.mu.Unlock()
		return errors.New("no gang is left that could leave")
	}
	oldest := k.gangs.ring[0]
	k.gangs.ring = k.gangs.ring[1:]
	k.mu.Unlock()
	for _, g := range broken {
		if err := k.goneGang(g); err != nil {
			return err
		}
	}
	if err := k.goneGang(oldest); err != nil {
		return err
	}
	g := k.newGang(oldest.class)
	k.scheduler.Cache.AddPodGroup(g.group)
	k.scheduler.SchedulingQueue.AddPodGroup(klog.Logger{}, g.group)
	var last *corev1.Pod
	for range k.gangs.members {
		last = k.member(g)
		k.scheduler.Cache.AddPodGroupMember(last)
		k.scheduler.SchedulingQueue.Add(k.ctx, last)
	}
	// Upstream does this for each member. It lets a gang into the queue once all have come, so the last is enough.
	k.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Logger{}, framework.EventUnscheduledPodAdd, nil, last, nil)
	return nil
}

// goneGang is what the handlers do when a gang is deleted.
func (k *kubeSide) goneGang(g *kubeGang) error {
	for _, pod := range g.pods {
		if pod.Spec.NodeName == "" {
			k.scheduler.SchedulingQueue.Delete(klog.Logger{}, pod)
			k.scheduler.Cache.RemovePodGroupMember(pod)
			continue
		}
		if err := k.gone(pod); err != nil {
			return err
		}
	}
	k.scheduler.Cache.RemovePodGroup(klog.Logger{}, g.group)
	k.scheduler.SchedulingQueue.DeletePodGroup(klog.Logger{}, g.group)
	k.mu.Lock()
	delete(k.gangs.known, g.group.Name)
	k.mu.Unlock()
	return nil
}

// attempted takes note of a member that was bound or, without a node, found none. The last of its gang frees a token.
func (k *kubeSide) attempted(pod *corev1.Pod) {
	k.mu.Lock()
	g := k.gangs.known[*pod.Spec.SchedulingGroup.PodGroupName]
	if g == nil {
		k.mu.Unlock()
		return
	}
	g.pods = append(g.pods, pod)
	if pod.Spec.NodeName == "" {
		g.failed++
	}
	done := len(g.pods) == k.gangs.members
	switch {
	case done && g.failed > 0:
		k.gangs.broken = append(k.gangs.broken, g)
		k.unplaced++
	case done:
		k.gangs.ring = append(k.gangs.ring, g)
	}
	k.mu.Unlock()
	if done {
		k.tokens <- struct{}{}
	}
}

// memoryScheduling answers the writes of PodGroups.
type memoryScheduling struct {
	typedschedulingv1beta1.SchedulingV1beta1Interface
	side *kubeSide
}

func (c *memoryClient) SchedulingV1beta1() typedschedulingv1beta1.SchedulingV1beta1Interface {
	return memoryScheduling{side: c.side}
}

func (s memoryScheduling) PodGroups(string) typedschedulingv1beta1.PodGroupInterface {
	return memoryPodGroups{side: s.side}
}

type memoryPodGroups struct {
	typedschedulingv1beta1.PodGroupInterface
	side *kubeSide
}

// Patch accepts a condition and drops it: each gang is scheduled once, so it is never read.
func (p memoryPodGroups) Patch(
	_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string,
) (*schedulingv1beta1.PodGroup, error) {
	k := p.side
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.gangs.known[name]; g != nil {
		return g.group, nil
	}
	return nil, fmt.Errorf("no PodGroup %s", name)
}
