package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/kube/standin/refusal"
)

// Hilbert are the custom resources that are served beside the rest where a benchmark asks for them. Each has the subresource status.
//
// They are JSON documents of which nothing is read but the metadata: one more is one more line.
func Hilbert() map[string]schema.GroupVersionKind {
	return map[string]schema.GroupVersionKind{
		"resourcerequests":    v1alpha1.GroupVersion.WithKind("ResourceRequest"),
		"reservations":        v1alpha1.GroupVersion.WithKind("Reservation"),
		"queues":              v1alpha1.GroupVersion.WithKind("Queue"),
		"tidepools":           v1alpha1.GroupVersion.WithKind("TidePool"),
		"customnoderesources": nodev1alpha1.GroupVersion.WithKind("CustomNodeResource"),
		"nodeconfigurations":  nodev1alpha1.GroupVersion.WithKind("NodeConfiguration"),
		"serviceprofiles":     nodev1alpha1.GroupVersion.WithKind("ServiceProfile"),
	}
}

// document is an object of a custom resource.
type document struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	// rest is all else, by the name of the field, as it was written.
	rest map[string]json.RawMessage
}

// The fields of documents that the API server knows.
const fieldMetadata, fieldStatus = "metadata", "status"

// head are the fields that are read.
type head struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ObjectMeta `json:"metadata"`
}

// parseDocument reads a document of a kind.
func parseDocument(text []byte, kind schema.GroupVersionKind) (*document, error) {
	var known head
	d := &document{rest: make(map[string]json.RawMessage)}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := json.Unmarshal(text, &d.rest); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if known.GroupVersionKind() != kind {
		return nil, apierrors.NewBadRequest("the object is a " + known.GroupVersionKind().String() + ", want a " + kind.String())
	}
	for _, field := range []string{"apiVersion", "kind", fieldMetadata} {
		delete(d.rest, field)
	}
	d.TypeMeta, d.ObjectMeta = known.TypeMeta, known.Metadata
	return d, nil
}

// DeepCopyObject copies the metadata. The rest is never changed, only replaced.
func (d *document) DeepCopyObject() runtime.Object {
	return &document{TypeMeta: d.TypeMeta, ObjectMeta: *d.ObjectMeta.DeepCopy(), rest: maps.Clone(d.rest)}
}

// Marshal encodes the document as JSON.
func (d *document) Marshal() ([]byte, error) {
	fields := make(map[string]any, len(d.rest)+3)
	for name, text := range d.rest {
		fields[name] = text
	}
	fields["apiVersion"], fields["kind"], fields[fieldMetadata] = d.APIVersion, d.Kind, &d.ObjectMeta
	return json.Marshal(fields)
}

// same reports whether another document says the same, but for its version.
func (d *document) same(other *document) bool {
	a, b := *d, *other
	a.ResourceVersion, b.ResourceVersion = "", ""
	x, err := a.Marshal()
	y, otherErr := b.Marshal()
	return err == nil && otherErr == nil && bytes.Equal(x, y)
}

// jsonForm is how custom resources are written.
type jsonForm struct{}

func (jsonForm) mediaType() string { return runtime.ContentTypeJSON }
func (jsonForm) watchType() string { return runtime.ContentTypeJSON }

func (jsonForm) object(_ schema.GroupVersionKind, o object) ([]byte, error) { return o.Marshal() }

func (jsonForm) empty(kind schema.GroupVersionKind) (object, error) {
	d := &document{}
	d.SetGroupVersionKind(kind)
	return d, nil
}

func (jsonForm) list(kind schema.GroupVersionKind, items []*stored, version int64) ([]byte, error) {
	list := struct {
		metav1.TypeMeta
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}{Metadata: metav1.ListMeta{ResourceVersion: format(version)}, Items: make([]json.RawMessage, 0, len(items))}
	list.SetGroupVersionKind(listKind(kind))
	for _, item := range items {
		list.Items = append(list.Items, item.encoded)
	}
	return json.Marshal(&list)
}

// event makes one event of a watch. An error of the watch comes as protobuf, as do all objects that are not the collection's own.
func (jsonForm) event(kind watch.EventType, encoded []byte) ([]byte, error) {
	if kind == watch.Error {
		var err error
		if _, encoded, err = asJSON(encoded); err != nil {
			return nil, err
		}
	}
	// The object is JSON already, and was checked when it came in.
	return slices.Concat([]byte(`{"type":"`+string(kind)+`","object":`), bytes.TrimSpace(encoded), []byte("}\n")), nil
}

// removed is what the API server says of a document that was deleted.
func (c *collection) removed(d *document) ([]byte, error) {
	return json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: statusKind.Kind}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: d.Name, Group: c.name.Group, Kind: c.name.Resource, UID: d.UID},
	})
}

// metadataOf is a document of which a client wants the metadata only.
func metadataOf(d *document) ([]byte, error) {
	partial := metav1.PartialObjectMetadata{ObjectMeta: d.ObjectMeta}
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return json.Marshal(&partial)
}

// createDocument keeps a new document. Its status is not taken: only the subresource writes that.
func (c *collection) createDocument(d *document) (*stored, error) {
	delete(d.rest, fieldStatus)
	d.Generation = 1
	return c.create(d)
}

// changeDocument replaces a document, or the part of it that the subresource is. A change that says nothing new changes nothing, not even the version.
func (h *handler) changeDocument(r *http.Request, c *collection, key types.NamespacedName, sub string) (*stored, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return c.change(key, func(o object) (object, error) {
		old, _ := o.(*document)
		written, err := c.written(r, old, body)
		if err != nil {
			return nil, err
		}
		if written.Namespace == "" {
			written.Namespace = key.Namespace
		}
		if err := c.replaces(r, written, old, key); err != nil {
			return nil, err
		}
		next := written.over(old, sub)
		if next.same(old) {
			return o, nil
		}
		return next, nil
	})
}

// replaces refuses what may not stand in the place of old: what is of another name, and what was made of another object or version. Of patches the UID does not count here: where it changed, as
// that of a status cannot, nobody sends one.
func (c *collection) replaces(r *http.Request, next, old *document, key types.NamespacedName) error {
	put := r.Method == http.MethodPut
	switch {
	case next.Name != key.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.Name, key.Name))
	case next.Namespace != key.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case put && next.ResourceVersion == "":
		return apierrors.NewInvalid(schema.GroupKind{Group: c.name.Group, Kind: c.name.Resource}, key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	case put:
		if err := refusal.Update(c.name, key, next.UID, old.UID); err != nil {
			return err
		}
	}
	if next.ResourceVersion != "" && next.ResourceVersion != old.ResourceVersion {
		return apierrors.NewConflict(c.name, key.Name, errModified)
	}
	return nil
}

// written is the document that a client wants in the place of old: the body itself, or a patch of old.
func (c *collection) written(r *http.Request, old *document, body []byte) (*document, error) {
	if r.Method == http.MethodPut {
		return parseDocument(body, c.kind)
	}
	before, err := old.Marshal()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	switch kind := types.PatchType(r.Header.Get("Content-Type")); kind {
	case types.JSONPatchType:
		patch, malformed := jsonpatch.DecodePatch(body)
		if malformed != nil {
			return nil, apierrors.NewBadRequest(malformed.Error())
		}
		if after, err = patch.Apply(before); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case types.MergePatchType:
		if after, err = jsonpatch.MergePatch(before, body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, apierrors.NewBadRequest("the stand-in takes JSON patches and merge patches of custom resources, not " + string(kind))
	}
	return parseDocument(after, c.kind)
}

// over is what is stored of a document that a client wrote over an old one. The status changes by its subresource, and all else without.
func (d *document) over(old *document, sub string) *document {
	next := &document{TypeMeta: old.TypeMeta, ObjectMeta: d.ObjectMeta, rest: maps.Clone(d.rest)}
	own := old
	if sub == fieldStatus {
		next.ObjectMeta, next.rest, own = *old.ObjectMeta.DeepCopy(), maps.Clone(old.rest), d
	}
	if status, there := own.rest[fieldStatus]; there {
		next.rest[fieldStatus] = status
	} else {
		delete(next.rest, fieldStatus)
	}
	next.UID, next.CreationTimestamp, next.Generation = old.UID, old.CreationTimestamp, old.Generation
	if !sameBut(next.rest, old.rest, fieldStatus) {
		next.Generation++
	}
	return next
}

// sameBut compares fields without one of them.
func sameBut(a, b map[string]json.RawMessage, field string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, field)
	delete(b, field)
	return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(compact(x), compact(y)) })
}

func compact(text json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return text
	}
	return out.Bytes()
}
