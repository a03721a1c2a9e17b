package standin

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// handler answers HTTP requests. It keeps no objects: it takes a request apart, has the server do it, and answers as the real one would.
type handler struct {
	t      testing.TB
	server *Server

	mu        sync.Mutex
	intercept Intercept
	asked     map[string]bool // "verb group/resource"
	noStream  bool
}

func (h *handler) setIntercept(f Intercept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intercept = f
}

func (h *handler) refuseStreams() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noStream = true
}

// remembered lists what was asked, in order.
func (h *handler) remembered() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.asked))
}

// Version is the version of Kubernetes that the stand-in says it has.
const Version = "v1.37.0"

// ServeHTTP takes a request apart: /api/v1/[namespaces/NS/]RESOURCE[/NAME[/SUB]] or /apis/GROUP/VERSION/….
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	intercept := h.intercept
	h.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	if r.URL.Path == "/version" {
		h.answer(w, http.StatusOK, map[string]string{"gitVersion": Version})
		return
	}
	if strings.HasPrefix(r.URL.Path, "/apis/visibility.hilbert.dev/") {
		h.serveAggregated(w, r)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" && len(parts) == 3 {
		h.serveDiscovery(w, parts[1]+"/"+parts[2])
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
	h.remember(r, group, resource, name, sub)
	if offered := resource + "." + group; optional[offered] != "" {
		h.serveOffered(w, r, request{resource: offered, version: group + "/" + version, namespace: namespace, name: name, sub: sub})
		return
	}
	switch {
	case resource == "tokenreviews":
		h.serveTokenReview(w, r)
	case resource == "subjectaccessreviews":
		h.serveAccessReview(w, r)
	case resource == eventResource.Resource:
		h.serveEvent(w, r, namespace, name)
	case sub == "eviction":
		h.serveEviction(w, r, namespace, name)
	case resource == "nodes" && name != "":
		h.serveNode(w, name)
	case resource != "leases" && examples[resource] == nil:
		http.NotFound(w, r)
	case resource == "leases":
		h.serveLease(w, r, namespace, name)
	case sub == "binding":
		h.serveBinding(w, r, namespace, name)
	case sub == "status":
		h.servePatch(w, r, namespace, name)
	case r.Method == http.MethodDelete:
		h.serveDelete(w, r, namespace, name)
	case name != "":
		h.serveGet(w, namespace, name)
	case r.URL.Query().Get("watch") != "":
		h.serveWatch(w, r, resource)
	default:
		h.serveList(w, r, resource, namespace)
	}
}

func (h *handler) remember(r *http.Request, group, resource, name, sub string) {
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[verb+" "+group+"/"+resource] = true
	if r.URL.Query().Get("sendInitialEvents") != "" {
		h.asked["list "+group+"/"+resource] = true // what an older server is asked instead
	}
}

func (h *handler) fail(w http.ResponseWriter, err error) {
	status := apierrors.ReasonForError(err)
	object := &metav1.Status{Status: metav1.StatusFailure, Reason: status, Message: err.Error(), Code: http.StatusInternalServerError}
	if e, ok := err.(apierrors.APIStatus); ok {
		copied := e.Status()
		object = &copied
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	h.answer(w, int(object.Code), object)
}

func (h *handler) answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		h.t.Logf("stand-in: %v", err) // the client went away
	}
}

func (h *handler) serveGet(w http.ResponseWriter, namespace, name string) {
	pod := h.server.Pod(namespace, name)
	if pod == nil {
		h.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	h.answer(w, http.StatusOK, pod)
}

func (h *handler) decode(w http.ResponseWriter, r *http.Request, into runtime.Object) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	}
	if err != nil {
		h.fail(w, apierrors.NewBadRequest(err.Error()))
		return false
	}
	return true
}

func (h *handler) serveBinding(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var binding corev1.Binding
	if !h.decode(w, r, &binding) {
		return
	}
	if err := h.server.bind(namespace, name, &binding); err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func (h *handler) servePatch(w http.ResponseWriter, r *http.Request, namespace, name string) {
	patch, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	patched, err := h.server.patchPod(namespace, name, patch)
	if err != nil {
		h.fail(w, err)
		return
	}
	patched.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	h.answer(w, http.StatusOK, patched)
}

func (h *handler) serveLease(w http.ResponseWriter, r *http.Request, namespace, name string) {
	lease := &coordinationv1.Lease{}
	if r.Method != http.MethodGet && !h.decode(w, r, lease) {
		return
	}
	var err error
	switch r.Method {
	case http.MethodGet:
		if lease = h.server.Lease(namespace, name); lease == nil {
			err = apierrors.NewNotFound(leaseResource, name)
		}
	case http.MethodPost:
		lease, err = h.server.createLease(namespace, lease)
	default:
		lease, err = h.server.updateLease(namespace, name, lease)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	h.answer(w, http.StatusOK, lease)
}

func (h *handler) serveList(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	objects, version := h.server.list(resource, r.URL.Query().Get("fieldSelector"))
	if r.URL.Query().Get("resourceVersion") == "0" {
		objects = nil // what is in some cache: here as stale as can be
	}
	objects = slices.DeleteFunc(objects, func(o runtime.Object) bool {
		m, err := meta.Accessor(o)
		return namespace != "" && err == nil && m.GetNamespace() != namespace
	})
	group, kind := kindOf(h.server.example(resource))
	h.answer(w, http.StatusOK, map[string]any{
		"apiVersion": group, "kind": kind + "List", "metadata": map[string]string{"resourceVersion": format(version)}, "items": objects,
	})
}
