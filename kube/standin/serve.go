package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

func format(version int64) string { return strconv.FormatInt(version, 10) }

// serve takes a request apart: /api/v1/[namespaces/NS/]RESOURCE[/NAME[/SUB]] or /apis/GROUP/VERSION/….
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" && len(parts) == 3 {
		s.serveDiscovery(w, parts[1]+"/"+parts[2])
		return
	}
	version := ""
	if parts[0] == "apis" {
		group, version, parts = parts[1], parts[2], parts[3:]
	} else {
		parts = parts[2:]
	}
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	resource, name, sub := parts[0], parts[1], parts[2]
	s.remember(r, group, resource, name, sub)
	if offered := resource + "." + group; optional[offered] != "" {
		s.serveOffered(w, r, request{resource: offered, version: group + "/" + version, namespace: namespace, name: name, sub: sub})
		return
	}
	switch {
	case resource == "tokenreviews":
		s.serveTokenReview(w, r)
	case resource == "subjectaccessreviews":
		s.serveAccessReview(w, r)
	case sub == "proxy":
		s.serveProxy(w, r, namespace, name)
	case resource == eventResource.Resource:
		s.serveEvent(w, r, namespace, name)
	case sub == "eviction":
		s.serveEviction(w, r, namespace, name)
	case resource == "nodes" && name != "":
		s.serveNode(w, name)
	case resource != "leases" && examples[resource] == nil:
		http.NotFound(w, r)
	case resource == "leases":
		s.serveLease(w, r, namespace, name)
	case sub == "binding":
		s.serveBinding(w, r, namespace, name)
	case sub == "status":
		s.servePatch(w, r, namespace, name)
	case r.Method == http.MethodDelete:
		s.serveDelete(w, r, namespace, name)
	case name != "":
		s.serveGet(w, namespace, name)
	case r.URL.Query().Get("watch") != "":
		s.serveWatch(w, r, resource)
	default:
		s.serveList(w, r, resource)
	}
}

func (s *Server) remember(r *http.Request, group, resource, name, sub string) {
	verb := map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "DELETE": "delete"}[r.Method]
	if verb == "get" && name == "" {
		verb = "list"
		if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
	}
	if sub != "" {
		resource += "/" + sub
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[verb+" "+group+"/"+resource] = true
	if r.URL.Query().Get("sendInitialEvents") != "" {
		s.asked["list "+group+"/"+resource] = true // what an older server is asked instead
	}
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	status := apierrors.ReasonForError(err)
	object := &metav1.Status{Status: metav1.StatusFailure, Reason: status, Message: err.Error(), Code: http.StatusInternalServerError}
	if e, ok := err.(apierrors.APIStatus); ok {
		copied := e.Status()
		object = &copied
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	s.answer(w, int(object.Code), object)
}

func (s *Server) answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		s.t.Logf("stand-in: %v", err) // the client went away
	}
}

var podResource = schema.GroupResource{Resource: "pods"}

func (s *Server) serveGet(w http.ResponseWriter, namespace, name string) {
	pod := s.Pod(namespace, name)
	if pod == nil {
		s.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	s.answer(w, http.StatusOK, pod)
}

func (s *Server) decode(w http.ResponseWriter, r *http.Request, into runtime.Object) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	}
	if err != nil {
		s.fail(w, apierrors.NewBadRequest(err.Error()))
		return false
	}
	return true
}

func (s *Server) serveBinding(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var binding corev1.Binding
	if !s.decode(w, r, &binding) {
		return
	}
	if err := s.bind(namespace, name, &binding); err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

// bind refuses in the words of the real API server: those are all by which a client can tell the causes apart.
func (s *Server) bind(namespace, name string, b *corev1.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, name, fmt.Errorf(format, args...))
	}
	switch {
	case pod == nil:
		return apierrors.NewNotFound(podResource, name)
	case b.UID != "" && b.UID != pod.UID:
		//nolint:staticcheck // ST1005: this is how the real one spells it
		return apierrors.NewConflict(podResource, name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, pod.UID))
	case pod.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", name)
	case pod.Spec.NodeName != "":
		return conflict("pod %v is already assigned to node %q", name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return conflict("pod %v has non-empty .spec.schedulingGates", name)
	}
	pod.Spec.NodeName = b.Target.Name
	for key, value := range b.Annotations {
		if pod.Annotations == nil {
			pod.Annotations = make(map[string]string)
		}
		pod.Annotations[key] = value
	}
	s.bound[string(pod.UID)]++
	s.setPod(pod)
	return nil
}

func (s *Server) servePatch(w http.ResponseWriter, r *http.Request, namespace, name string) {
	patch, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[namespace+"/"+name]
	if pod == nil {
		s.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	old, err := json.Marshal(pod)
	if err != nil {
		s.fail(w, err)
		return
	}
	merged, err := strategicpatch.StrategicMergePatch(old, patch, corev1.Pod{})
	patched := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(merged, patched)
	}
	if err != nil {
		s.fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if patched.UID != pod.UID {
		s.fail(w, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), patched.UID, "field is immutable"),
		}))
		return
	}
	s.setPod(patched)
	patched.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	s.answer(w, http.StatusOK, patched)
}

func (s *Server) serveLease(w http.ResponseWriter, r *http.Request, namespace, name string) {
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	var lease coordinationv1.Lease
	if r.Method != http.MethodGet && !s.decode(w, r, &lease) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + name
	if r.Method == http.MethodPost {
		key = namespace + "/" + lease.Name
	}
	known := s.leases[key]
	switch {
	case r.Method == http.MethodPost && known != nil:
		s.fail(w, apierrors.NewAlreadyExists(resource, lease.Name))
		return
	case r.Method != http.MethodPost && known == nil:
		s.fail(w, apierrors.NewNotFound(resource, name))
		return
	case r.Method == http.MethodPut && lease.ResourceVersion != known.ResourceVersion:
		s.fail(w, apierrors.NewConflict(resource, name, errors.New("the object has been modified")))
		return
	case r.Method == http.MethodGet:
		lease = *known
	default:
		s.version++
		stamp(&lease.ObjectMeta, s.version)
		s.leases[key] = lease.DeepCopy()
	}
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	s.answer(w, http.StatusOK, &lease)
}

// objects lists what a resource holds now, in name order.
func (s *Server) objects(resource, selector string) []runtime.Object {
	byName := make(map[string]runtime.Object)
	switch resource {
	case "nodes":
		for name, node := range s.nodes {
			byName[name] = node.DeepCopy()
		}
	case "pods":
		for name, pod := range s.pods {
			if selected(selector, pod) {
				byName[name] = pod.DeepCopy()
			}
		}
	default:
		for name, object := range s.others[resource] {
			byName[name] = object.DeepCopyObject()
		}
	}
	out := make([]runtime.Object, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("resourceVersion") == "0" {
		// What is in some cache: here as stale as can be.
		s.answerList(w, resource, nil)
		return
	}
	s.answerList(w, resource, s.objects(resource, r.URL.Query().Get("fieldSelector")))
}

func (s *Server) answerList(w http.ResponseWriter, resource string, objects []runtime.Object) {
	group, kind := kindOf(s.example(resource))
	s.answer(w, http.StatusOK, map[string]any{
		"apiVersion": group, "kind": kind + "List", "metadata": map[string]string{"resourceVersion": format(s.version)}, "items": objects,
	})
}
