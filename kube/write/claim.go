package write

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/bind"
)

// Writes about ResourceClaims are strategic merge patches with the claim's UID as a precondition: a finalizer or a reservation is added to those that are there,
// whatever they are, so that no version has to be known. That a claim is given devices twice the API server refuses: an allocation cannot be changed.

type claimPatch struct {
	Metadata claimPatchMetadata `json:"metadata"`
	Status   map[string]any     `json:"status,omitempty"`
}

type claimPatchMetadata struct {
	UID        types.UID `json:"uid"`
	Finalizers []string  `json:"finalizers,omitempty"`
}

func resourceClaimPath(name facts.ClaimName) string {
	return "/apis/" + parse.GroupResource + "/v1/namespaces/" + name.Namespace + "/resourceclaims/" + name.Name
}

// claimCall makes the call of a WriteClaim.
func claimCall(w *bind.Write, c *apiserver.Call) error {
	o := &w.Claim
	switch {
	case o.Create:
		return newClaimCall(w, c)
	case len(o.Mappings) > 0:
		return mappingsCall(w, c)
	}
	c.Path = resourceClaimPath(o.Claim)
	patch := claimPatch{Metadata: claimPatchMetadata{UID: types.UID(o.ClaimUID)}}
	if o.Protect {
		patch.Metadata.Finalizers = []string{resourcev1.Finalizer}
		return claimPatchCall(c, o.Claim, &patch)
	}
	c.Path += "/status"
	patch.Status = map[string]any{"reservedFor": []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: w.Name, UID: types.UID(w.Pod)}}}
	if o.Allocation != "" {
		var allocation map[string]any
		if err := json.Unmarshal([]byte(o.Allocation), &allocation); err != nil {
			return fmt.Errorf("read what claim %s is given: %w", o.Claim, err)
		}
		allocation["allocationTimestamp"] = metav1.NewTime(time.Unix(o.Time, 0))
		patch.Status["allocation"] = allocation
	}
	return claimPatchCall(c, o.Claim, &patch)
}

// newClaimCall makes the call that creates the claim for the extended resources of a pod.
func newClaimCall(w *bind.Write, c *apiserver.Call) (err error) {
	o := &w.Claim
	devices, ok := o.Requests.Spec.(*resourcev1.DeviceClaim)
	if !ok {
		return fmt.Errorf("create claim %s: what it asks for is a %T", o.Claim, o.Requests.Spec)
	}
	controller := true
	claim := &resourcev1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Claim.Namespace, Name: o.Claim.Name, Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: w.Name, UID: types.UID(w.Pod), Controller: &controller}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: *devices},
	}
	c.Path = strings.TrimSuffix(resourceClaimPath(o.Claim), "/"+o.Claim.Name)
	c.Method, c.ContentType, c.Accept = http.MethodPost, apiserver.ContentJSON, acceptJSONMetadata
	if c.Body, err = json.Marshal(claim); err != nil {
		return fmt.Errorf("encode claim %s: %w", o.Claim, err)
	}
	return nil
}

// mappingsCall makes the call that tells a pod's status which claim was made for its extended resources.
func mappingsCall(w *bind.Write, c *apiserver.Call) (err error) {
	status := corev1.PodExtendedResourceClaimStatus{ResourceClaimName: w.Claim.Claim.Name}
	for _, m := range w.Claim.Mappings {
		status.RequestMappings = append(status.RequestMappings, corev1.ContainerExtendedResourceRequest{ContainerName: m.Container, ResourceName: m.Resource, RequestName: m.Request})
	}
	c.About(w.Namespace, w.Name, "status")
	c.Method, c.ContentType = http.MethodPatch, apiserver.ContentMerge
	c.Body, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.Pod}, "status": map[string]any{"extendedResourceClaimStatus": &status},
	})
	if err != nil {
		return fmt.Errorf("encode the status of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// claimResult is what became of a WriteClaim. That a claim is there already that was to be made is as good: its name says for whom it is, and what it asks for.
func claimResult(w *bind.Write, result bind.Result, code int) bind.Result {
	if w.Claim.Create && code == http.StatusConflict {
		return bind.Result{ID: result.ID, Outcome: bind.Written}
	}
	return result
}

// giveBackCall makes the call of a GiveBackClaim.
func giveBackCall(w *bind.Write, c *apiserver.Call) error {
	g := &w.GiveBack
	c.Path, c.Reads = resourceClaimPath(g.Claim)+"/status", true
	patch := claimPatch{Metadata: claimPatchMetadata{UID: types.UID(g.ClaimUID)}, Status: map[string]any{
		"reservedFor": []map[string]string{{"$patch": "delete", "uid": string(g.Pod)}},
	}}
	if g.Deallocate {
		patch.Status["allocation"], patch.Status["devices"] = nil, nil
	}
	return claimPatchCall(c, g.Claim, &patch)
}

func claimPatchCall(c *apiserver.Call, claim facts.ClaimName, patch *claimPatch) (err error) {
	c.Method, c.ContentType, c.Accept = http.MethodPatch, apiserver.ContentStrategicMerge, acceptJSONMetadata
	if c.Body, err = json.Marshal(patch); err != nil {
		return fmt.Errorf("encode what is written about claim %s: %w", claim, err)
	}
	return nil
}

// acceptJSONMetadata asks for as little of a patched object as there is, in JSON.
const acceptJSONMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// versionOf reads the resource version of an object; 0 if it cannot.
func versionOf(body []byte) uint64 {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &object); err != nil {
		return 0
	}
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
