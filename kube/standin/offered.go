package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// optional are the resources that are served only once they are offered, with their kinds. Their objects are unstructured.
var optional = map[string]string{
	"podgroups.scheduling.k8s.io":             "PodGroup",
	"podgroups.scheduling.x-k8s.io":           "PodGroup",
	"queues.scheduling.hilbert.dev":           "Queue",
	"reservations.scheduling.hilbert.dev":     "Reservation",
	"resourcerequests.scheduling.hilbert.dev": "ResourceRequest",
	"tidepools.scheduling.hilbert.dev":        "TidePool",
	"priorityclasses.scheduling.k8s.io":       "PriorityClass",
	"customnoderesources.node.hilbert.dev":    "CustomNodeResource",
	"nodeconfigurations.node.hilbert.dev":     "NodeConfiguration",
	"serviceprofiles.node.hilbert.dev":        "ServiceProfile",
	"resourceclaims.resource.k8s.io":          "ResourceClaim",
	"deviceclasses.resource.k8s.io":           "DeviceClass",
	"resourceslices.resource.k8s.io":          "ResourceSlice",
	"devicetaintrules.resource.k8s.io":        "DeviceTaintRule",
}

// Offer serves a resource of optional under a group and version; an empty version takes it away again.
func (s *Server) Offer(resource, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if optional[resource] == "" {
		s.t.Fatalf("stand-in: %s is not optional", resource)
	}
	if s.offered == nil {
		s.offered = make(map[string]string)
	}
	delete(s.offered, resource)
	if version != "" {
		_, group, _ := strings.Cut(resource, ".")
		s.offered[resource] = group + "/" + version
	}
}

// Stored returns a copy of an object of optional, nil when there is none.
func (s *Server) Stored(resource, namespace, name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, ok := s.others[resource][namespace+"/"+name].(*unstructured.Unstructured); ok {
		return object.DeepCopy()
	}
	return nil
}

// offer is the group/version under which a resource of optional is served; empty: it is not.
func (s *Server) offer(resource string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered[resource]
}

// example is an empty object of a resource.
func (s *Server) example(resource string) runtime.Object {
	if example := examples[resource]; example != nil {
		return example
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(s.offer(resource))
	u.SetKind(optional[resource])
	return u
}

func (h *handler) serveDiscovery(w http.ResponseWriter, version string) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version}
	for resource, kind := range optional {
		if h.server.offer(resource) == version {
			name, _, _ := strings.Cut(resource, ".")
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind})
		}
	}
	if len(list.APIResources) == 0 {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	h.answer(w, http.StatusOK, &list)
}

// request is one for an optional resource.
type request struct{ resource, version, namespace, name, sub string }

func (h *handler) serveOffered(w http.ResponseWriter, r *http.Request, q request) {
	switch {
	case h.server.offer(q.resource) != q.version:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case q.sub == "status" && r.Method == http.MethodPatch:
		h.patchStatus(w, r, q)
	case q.sub == "" && r.Method == http.MethodPatch:
		h.patchSpec(w, r, q)
	case q.sub == "status" && r.Method == http.MethodPut:
		h.putStatus(w, r, q)
	case q.name == "" && r.Method == http.MethodPost:
		h.create(w, r, q.resource, q.namespace)
	case q.name != "":
		object := h.server.Stored(q.resource, q.namespace, q.name)
		if object == nil {
			h.fail(w, apierrors.NewNotFound(schema.ParseGroupResource(q.resource), q.name))
			return
		}
		h.answer(w, http.StatusOK, object.Object)
	case r.URL.Query().Get("watch") != "":
		h.serveWatch(w, r, q.resource)
	default:
		h.serveList(w, r, q.resource, q.namespace)
	}
}

// patchStatus changes nothing but the status, by the four kinds of patches that hilbertd sends.
func (h *handler) patchStatus(w http.ResponseWriter, r *http.Request, q request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	object, err := h.server.update(q, "status", func(old *unstructured.Unstructured) (any, error) {
		resource := schema.ParseGroupResource(q.resource)
		if types.PatchType(r.Header.Get("Content-Type")) == types.JSONPatchType {
			return replaced(old, body, resource, q.name)
		}
		patch := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, &patch.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if version := patch.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(resource, q.name, errors.New("the object has been modified"))
		}
		status, err := patched(old, patch, types.PatchType(r.Header.Get("Content-Type")), resource.Group)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return status, nil
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusOK, object.Object)
}

// replaced is the status that a JSON patch puts in the old one's place, if the object is still the one that it names.
func replaced(old *unstructured.Unstructured, body []byte, resource schema.GroupResource, name string) (any, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	const test, add = 0, 1
	if len(operations) != 2 || operations[test].Op != "test" || operations[test].Path != "/metadata/uid" || operations[add].Op != "add" || operations[add].Path != "/status" {
		return nil, apierrors.NewBadRequest("want a JSON patch that tests the UID and adds the status")
	}
	if operations[test].Value != string(old.GetUID()) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, name, nil)
	}
	return operations[add].Value, nil
}

// patchSpec merges a patch into the spec, no deeper than hilbertd goes.
func (h *handler) patchSpec(w http.ResponseWriter, r *http.Request, q request) {
	patch := h.read(w, r)
	if patch == nil {
		return
	}
	object, err := h.server.update(q, "spec", func(old *unstructured.Unstructured) (any, error) {
		spec, _, _ := unstructured.NestedMap(old.Object, "spec")
		asked, ok, _ := unstructured.NestedMap(patch.Object, "spec")
		if !ok || r.Header.Get("Content-Type") != string(types.MergePatchType) {
			return nil, apierrors.NewBadRequest("want a merge patch of the spec")
		}
		if spec == nil {
			spec = make(map[string]any)
		}
		maps.Copy(spec, asked)
		maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
		return spec, nil
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusOK, object.Object)
}

// patched is the status after a patch.
func patched(old, patch *unstructured.Unstructured, how types.PatchType, group string) (any, error) {
	asked, _, _ := unstructured.NestedMap(patch.Object, "status")
	status, _, _ := unstructured.NestedMap(old.Object, "status")
	switch {
	case how == types.MergePatchType: // no deeper than hilbertd goes
		if status == nil {
			return asked, nil
		}
		maps.Copy(status, asked)
		return status, nil
	case how == types.StrategicMergePatchType && group == schedulingv1beta1.GroupName:
		merged, err := strategicpatch.StrategicMergeMapPatch(old.Object, map[string]any{"status": asked}, schedulingv1beta1.PodGroup{})
		return merged["status"], err
	}
	return nil, fmt.Errorf("a %s of %s is not supported", how, group)
}
