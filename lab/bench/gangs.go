package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gangs is how many PodGroups there are, 0 where pods are units of their own.
func (o Options) gangs() int {
	if o.Gang == 0 {
		return 0
	}
	return (o.Pods + o.Gang - 1) / o.Gang
}

func groupName(gang int) string { return fmt.Sprintf("gang-%06d", gang) }

// class of the i-th pod. The pods of a gang are alike.
func (w workload) class(i int) class {
	if w.gang > 0 {
		i /= w.gang
	}
	return w.classes[i%len(w.classes)]
}

// join makes the i-th pod a member of its gang.
func (w workload) join(pod *corev1.Pod, i int) {
	if w.gang > 0 {
		name := groupName(i / w.gang)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
}

// group is the PodGroup of a gang, all members of which must be placed together. Upstream wants it to have the priority of its pods.
func (w workload) group(gang, pods int) *schedulingv1beta1.PodGroup {
	members := min(w.gang, pods-gang*w.gang)
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: groupName(gang)},
		Spec: schedulingv1beta1.PodGroupSpec{
			PriorityClassName: w.class(gang * w.gang).priority,
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(members)},
			},
		},
	}
}

// createGroups creates all PodGroups of a round.
func (h *harness) createGroups(ctx context.Context) error {
	return each(ctx, h.options.gangs(), func(ctx context.Context, i int) error {
		_, err := h.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, h.work.group(i, h.options.Pods), metav1.CreateOptions{})
		return err
	})
}

// deleteGroups removes them. Their pods are gone; the controller that would take their protection off then does not run here.
func (h *harness) deleteGroups(ctx context.Context) error {
	groups := h.client.SchedulingV1beta1().PodGroups(namespace)
	err := each(ctx, h.options.gangs(), func(ctx context.Context, i int) error {
		_, err := groups.Patch(ctx, groupName(i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = groups.Delete(ctx, groupName(i), metav1.DeleteOptions{})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the PodGroups: %w", err)
	}
	return nil
}

// whole fails unless every PodGroup's condition says that all of it has places.
func (h *harness) whole(ctx context.Context) (told int, err error) {
	if h.options.gangs() == 0 {
		return 0, nil
	}
	list, err := h.client.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list the PodGroups: %w", err)
	}
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == schedulingv1beta1.PodGroupInitiallyScheduled && c.Status == metav1.ConditionTrue {
				told++
			}
		}
	}
	return told, nil
}
