package standin

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/standin/refusal"
)

// serveDelete marks a bound pod as being deleted; the test removes it with DeletePod when its grace period is over. A pod that is not bound is gone at
// once.
func (h *handler) serveDelete(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var options metav1.DeleteOptions
	if !h.decode(w, r, &options) {
		return
	}
	pod := h.server.Pod(namespace, name)
	if pod == nil {
		h.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	if p := options.Preconditions; p != nil && p.UID != nil {
		if err := refusal.UID(refusal.Pod, name, *p.UID, pod.UID); err != nil {
			h.fail(w, err)
			return
		}
	}
	if pod.Spec.NodeName == "" {
		h.server.DeletePod(namespace, name)
	} else if pod.DeletionTimestamp == nil {
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		h.server.SetPod(pod)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	h.answer(w, http.StatusOK, pod)
}
