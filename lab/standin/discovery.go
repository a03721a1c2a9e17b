package standin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveDiscovery answers /apis/GROUP/VERSION with the names of the resources there, and reports whether that was asked for. It says no more of them than hilbertd asks.
func (h *handler) serveDiscovery(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "apis" || r.Method != http.MethodGet {
		return false
	}
	version := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.String()}
	for resource, c := range h.store.collections {
		if c.kind.GroupVersion() == version {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource, Kind: c.kind.Kind})
		}
	}
	if len(list.APIResources) == 0 {
		return false
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	body, err := json.Marshal(&list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	write(w, http.StatusOK, runtime.ContentTypeJSON, body)
	return true
}
