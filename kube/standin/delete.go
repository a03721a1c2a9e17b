package standin

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveDelete marks a pod that is bound as being deleted, for somebody to remove with DeletePod when its grace period is over; one that is
// not bound is gone at once.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var options metav1.DeleteOptions
	if !s.decode(w, r, &options) {
		return
	}
	s.mu.Lock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	s.mu.Unlock()
	if pod == nil {
		s.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID {
		//nolint:staticcheck // ST1005: this is how the real one spells it
		s.fail(w, apierrors.NewConflict(podResource, name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, pod.UID)))
		return
	}
	if pod.Spec.NodeName == "" {
		s.DeletePod(namespace, name)
	} else if pod.DeletionTimestamp == nil {
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		s.SetPod(pod)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	s.answer(w, http.StatusOK, pod)
}
