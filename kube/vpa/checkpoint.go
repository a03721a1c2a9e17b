package vpa

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/apiserver"
)

// Checkpoints are ConfigMaps in the controller's namespace, one for each VerticalPodAutoscaler. VPA's own VerticalPodAutoscalerCheckpoint holds one histogram of CPU and one
// of memory for each container; a profile here has several of CPU, what candidates cost, peaks of days, and how far a rollout is.
const (
	checkpointPrefix = "hilbert-recommendation-" // the UID of the object follows
	checkpointKey    = "checkpoint.json.gz"
	// maxCheckpoint bounds what one is unpacked to, in bytes.
	maxCheckpoint   = 4 << 20
	checkpointsPage = "200"
)

// save writes a checkpoint.
func (w *Writer) save(ctx context.Context, key vpa.Key, c *vpa.Checkpoint) error {
	packed, err := pack(c)
	if err != nil {
		return fmt.Errorf("encode the checkpoint of VerticalPodAutoscaler %s: %w", key, err)
	}
	name := checkpointPrefix + c.UID
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"namespace": w.Namespace, "name": name, "labels": map[string]string{spec.LabelCheckpoint: "true"}, "annotations": map[string]string{spec.AnnotationCheckpointOf: key.String()},
		},
		"binaryData": map[string][]byte{checkpointKey: packed},
	})
	if err != nil {
		return fmt.Errorf("encode the checkpoint of VerticalPodAutoscaler %s: %w", key, err)
	}
	return w.call(ctx, &apiserver.Call{
		Method: http.MethodPatch, Path: "/api/v1/namespaces/" + w.Namespace + "/configmaps/" + name, ContentType: apiserver.ContentApply, Accept: apiserver.AcceptMetadataJSON, Body: data,
	}, "save the checkpoint of VerticalPodAutoscaler "+key.String())
}

// forget deletes a checkpoint.
func (w *Writer) forget(ctx context.Context, uid string) error {
	return w.call(ctx, &apiserver.Call{
		Method: http.MethodDelete, Path: "/api/v1/namespaces/" + w.Namespace + "/configmaps/" + checkpointPrefix + uid, ContentType: apiserver.ContentJSON, Accept: apiserver.ContentJSON,
	}, "delete a checkpoint", http.StatusNotFound)
}

func pack(c *vpa.Checkpoint) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	err := json.NewEncoder(z).Encode(c)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unpack(packed []byte) (*vpa.Checkpoint, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(z, maxCheckpoint))
	if err != nil {
		return nil, err
	}
	c := new(vpa.Checkpoint)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Restore gives a state what was saved. What cannot be used is logged and left out; it is saved anew in time.
func (r *Reader) Restore(ctx context.Context, namespace string, s *vpa.State) error {
	next := ""
	for {
		query := map[string]string{"labelSelector": spec.LabelCheckpoint, "limit": checkpointsPage}
		if next != "" {
			query["continue"] = next
		}
		data, err := r.api.get(ctx, "/api/v1/namespaces/"+namespace+"/configmaps", query)
		if err != nil {
			return fmt.Errorf("list checkpoints: %w", err)
		}
		var page corev1.ConfigMapList
		if err := json.Unmarshal(data, &page); err != nil {
			return fmt.Errorf("read the list of checkpoints: %w", err)
		}
		for i := range page.Items {
			r.restore(&page.Items[i].ObjectMeta, page.Items[i].BinaryData[checkpointKey], s)
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

func (r *Reader) restore(meta *metav1.ObjectMeta, packed []byte, s *vpa.State) {
	namespace, name, _ := strings.Cut(meta.Annotations[spec.AnnotationCheckpointOf], "/")
	c, err := unpack(packed)
	if err == nil && meta.Name != checkpointPrefix+c.UID {
		err = errors.New("it is of another object")
	}
	if err == nil {
		err = s.Restore(vpa.Key{Namespace: namespace, Name: name}, c)
	}
	if err != nil {
		r.log.Warn("a checkpoint cannot be used; what it knew is learnt anew", "name", meta.Name, "err", err)
	}
}
