package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

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
