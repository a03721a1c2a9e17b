package write

import (
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/bind"
)

// volumePatch is a merge patch of a claim or of a volume. What stands in Metadata beside the annotations are preconditions.
type volumePatch struct {
	Metadata volumePatchMetadata `json:"metadata"`
	Spec     *volumePatchSpec    `json:"spec,omitempty"`
}

type volumePatchMetadata struct {
	UID             types.UID         `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations"`
}

type volumePatchSpec struct {
	ClaimRef corev1.ObjectReference `json:"claimRef"`
}

// volumeCall makes the call of a WriteVolume.
func volumeCall(w *bind.Write, c *apiserver.Call) error {
	o := &w.Volume
	c.Method, c.ContentType, c.Accept = http.MethodPatch, apiserver.ContentMerge, apiserver.AcceptMetadata
	c.Path = "/api/v1/namespaces/" + o.Claim.Namespace + "/persistentvolumeclaims/" + o.Claim.Name
	patch := volumePatch{Metadata: volumePatchMetadata{UID: types.UID(o.ClaimUID), ResourceVersion: o.Version, Annotations: map[string]string{parse.AnnotationSelectedNode: o.Node}}}
	switch {
	case o.Volume != "" && o.Version == "": // the patch would have no precondition, and give another claim's volume away
		return fmt.Errorf("give volume %s to claim %s: the volume is not known to be available", o.Volume, o.Claim)
	case o.Volume != "":
		c.Path = "/api/v1/persistentvolumes/" + o.Volume
		patch = volumePatch{
			Metadata: volumePatchMetadata{ResourceVersion: o.Version, Annotations: map[string]string{parse.AnnotationBoundByController: "yes"}},
			Spec: &volumePatchSpec{ClaimRef: corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: o.Claim.Namespace, Name: o.Claim.Name, UID: types.UID(o.ClaimUID),
			}},
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode what is written about claim %s: %w", o.Claim, err)
	}
	c.Body = body
	return nil
}

// volumeResult reads a refusal of a WriteVolume: of a volume or a claim that somebody else has changed meanwhile.
func volumeResult(result bind.Result, code int) bind.Result {
	if code == http.StatusConflict {
		result.Outcome = bind.Conflict
	}
	return result
}
