package standin

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"hilbert.dev/hilbert/kube/standin/refusal"
)

// created answers a Binding: the same bytes each time.
var created = func() []byte {
	body, err := envelope(statusKind, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	if err != nil {
		panic(err) // a constant
	}
	return body
}()

// preparePod is what the real one makes of a new pod, as far as schedulers read it.
func preparePod(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = new(int32)
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
}

func (h *handler) serveBinding(w http.ResponseWriter, r *http.Request, c *collection, key types.NamespacedName) {
	binding := &corev1.Binding{}
	err := h.decode(r, binding)
	if err == nil {
		_, err = c.bind(key, binding)
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.answer(w, r, http.StatusCreated, created)
}

func (c *collection) bind(key types.NamespacedName, b *corev1.Binding) (*stored, error) {
	if b.Target.Name == "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "target.name: Required value", // as odd as the real one
		}}
	}
	return c.change(key, func(old object) (object, error) {
		pod, _ := old.(*corev1.Pod)
		if err := refusal.Binding(key.Name, pod, b.UID); err != nil {
			return nil, err
		}
		// A copy as deep as what changes: everything below is shared with the old pod, and never changed.
		bound := *pod
		bound.Spec.NodeName = b.Target.Name
		bound.Status.NominatedNodeName = ""
		if len(b.Annotations) > 0 {
			bound.Annotations = maps.Clone(pod.Annotations)
			if bound.Annotations == nil {
				bound.Annotations = make(map[string]string, len(b.Annotations))
			}
			maps.Copy(bound.Annotations, b.Annotations)
		}
		bound.Status.Conditions = withCondition(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
		return &bound, nil
	})
}

// withCondition returns a copy of conditions with one set.
func withCondition(conditions []corev1.PodCondition, condition corev1.PodCondition) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(conditions)+1)
	for _, c := range conditions {
		if c.Type != condition.Type {
			out = append(out, c)
		}
	}
	return append(out, condition)
}

// patchStatus changes the status of a pod, and nothing else of it, by a strategic merge patch.
func (h *handler) patchStatus(r *http.Request, c *collection, key types.NamespacedName) (*stored, error) {
	if kind := r.Header.Get("Content-Type"); kind != string(types.StrategicMergePatchType) {
		return nil, apierrors.NewBadRequest("the stand-in takes strategic merge patches only, not " + kind)
	}
	patch, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return c.change(key, func(old object) (object, error) {
		pod, _ := old.(*corev1.Pod)
		before, err := json.Marshal(pod)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		merged, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
		patched := &corev1.Pod{}
		if err == nil {
			err = json.Unmarshal(merged, patched)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if patched.UID != pod.UID {
			return nil, apierrors.NewInvalid(c.kind.GroupKind(), key.Name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), patched.UID, "field is immutable"),
			})
		}
		if patched.ResourceVersion != pod.ResourceVersion {
			return nil, apierrors.NewConflict(c.name, key.Name, errModified)
		}
		next := *pod
		next.Status = patched.Status
		return &next, nil
	})
}

// remove deletes at once. Without a kubelet nothing else could: there is no grace period here.
func (h *handler) remove(r *http.Request, c *collection, key types.NamespacedName) (*stored, error) {
	options := &metav1.DeleteOptions{}
	if err := h.decode(r, options); err != nil {
		return nil, err
	}
	check := func(o object) error {
		p := options.Preconditions
		if p == nil {
			return nil
		}
		if p.UID != nil {
			if err := refusal.UID(c.kind.GroupKind(), key.Name, *p.UID, o.GetUID()); err != nil {
				return err
			}
		}
		if v := p.ResourceVersion; v != nil && *v != o.GetResourceVersion() {
			return refusal.Version(c.kind.GroupKind(), key.Name, *v, o.GetResourceVersion())
		}
		return nil
	}
	s, err := c.get(key)
	if err != nil {
		return nil, err
	}
	if pod, ok := s.object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		// Watches of the real one see a bound pod as being deleted first, even without a grace period.
		_, err = c.change(key, func(old object) (object, error) {
			if err := check(old); err != nil {
				return nil, err
			}
			pod, _ := old.(*corev1.Pod)
			ending, now := *pod, metav1.Now()
			ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &now, new(int64)
			return &ending, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return c.remove(key, check)
}
