package standin

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// magic heads every protobuf body of the Kubernetes API.
const magic = "k8s\x00"

// Tags of the protobuf fields that this file writes by hand, as all lists of Kubernetes have them: metadata is field 1, items are field 2.
const tagMetadata, tagItem = 1<<3 | 2, 2<<3 | 2

// envelope encodes an object as the API server sends it.
func envelope(kind schema.GroupVersionKind, o interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	raw, err := o.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a %s: %w", kind.Kind, err)
	}
	return wrap(kind, raw)
}

func wrap(kind schema.GroupVersionKind, raw []byte) ([]byte, error) {
	version, name := kind.ToAPIVersionAndKind()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: name}, Raw: raw}
	out := make([]byte, len(magic)+unknown.Size())
	copy(out, magic)
	if _, err := unknown.MarshalTo(out[len(magic):]); err != nil {
		return nil, fmt.Errorf("encode a %s: %w", kind.Kind, err)
	}
	return out, nil
}

// encodeList makes a list of objects that are encoded already.
func encodeList(kind schema.GroupVersionKind, items []*stored, version int64) ([]byte, error) {
	meta := metav1.ListMeta{ResourceVersion: format(version)}
	head, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a list: %w", err)
	}
	out := append(binary.AppendUvarint([]byte{tagMetadata}, uint64(len(head))), head...)
	for _, item := range items {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(item.encoded[len(magic):]); err != nil {
			return nil, fmt.Errorf("encode a list: %w", err)
		}
		out = binary.AppendUvarint(append(out, tagItem), uint64(len(unknown.Raw)))
		out = append(out, unknown.Raw...)
	}
	return wrap(listKind(kind), out)
}

func listKind(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Kind += "List"
	return kind
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// form is how the objects of a collection are written.
type form interface {
	mediaType() string // of objects and lists
	watchType() string // of watches
	object(kind schema.GroupVersionKind, o object) ([]byte, error)
	list(kind schema.GroupVersionKind, items []*stored, version int64) ([]byte, error)
	event(kind watch.EventType, encoded []byte) ([]byte, error)
	empty(kind schema.GroupVersionKind) (object, error)
}

// protobufForm is how the API server's own resources are written.
type protobufForm struct{}

func (protobufForm) mediaType() string { return runtime.ContentTypeProtobuf }
func (protobufForm) watchType() string { return runtime.ContentTypeProtobuf + ";stream=watch" }

func (protobufForm) object(kind schema.GroupVersionKind, o object) ([]byte, error) {
	return envelope(kind, o)
}

func (protobufForm) list(kind schema.GroupVersionKind, items []*stored, version int64) ([]byte, error) {
	return encodeList(kind, items, version)
}

func (protobufForm) event(kind watch.EventType, encoded []byte) ([]byte, error) {
	return encodeEvent(kind, encoded)
}

func (protobufForm) empty(kind schema.GroupVersionKind) (object, error) {
	empty, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	o, ok := empty.(object)
	if !ok {
		return nil, errNoObject
	}
	return o, nil
}

// change is one entry of a resource's history. Its frames, one for each type of event, are encoded once for all watches.
type change struct {
	old, now *stored // old is nil for what is new
	gone     bool

	added, modified, deleted frame
}

type frame struct {
	once  sync.Once
	bytes []byte
	err   error
}

// seen is what a watch with a selector is told of the change; nil: nothing.
func (c *change) seen(f form, selected func(object) bool) ([]byte, error) {
	is, was := !c.gone && selected(c.now.object), c.old != nil && selected(c.old.object)
	switch {
	case is && was:
		return c.modified.encode(f, watch.Modified, c.now.encoded)
	case is:
		return c.added.encode(f, watch.Added, c.now.encoded)
	case was:
		return c.deleted.encode(f, watch.Deleted, c.now.encoded)
	}
	return nil, nil
}

func (f *frame) encode(form form, kind watch.EventType, encoded []byte) ([]byte, error) {
	f.once.Do(func() { f.bytes, f.err = form.event(kind, encoded) })
	return f.bytes, f.err
}

// encodeEvent makes one event of a watch: its length in four bytes, and a WatchEvent without an envelope.
func encodeEvent(kind watch.EventType, encoded []byte) ([]byte, error) {
	const head = 4
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encoded}}
	out := make([]byte, head+event.Size())
	binary.BigEndian.PutUint32(out, uint32(len(out)-head))
	if _, err := event.MarshalTo(out[head:]); err != nil {
		return nil, fmt.Errorf("encode an event of a watch: %w", err)
	}
	return out, nil
}
