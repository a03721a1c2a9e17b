package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/gentype"
)

// Written is an object as somebody wrote it. A definition leaves things open, such as what is in a pod template, so an object may be stored that no T can be read from. In a list of T
// one such object keeps all others from being read; here it is there with its Problem.
type Written[T any] struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Object  *T     // nil: it cannot be read
	Problem error  // then, why not
	Text    []byte // then, what is written
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Written[T]) UnmarshalJSON(text []byte) error {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &meta); err != nil {
		return err
	}
	*w = Written[T]{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta, Object: new(T)}
	if err := json.Unmarshal(text, w.Object); err != nil {
		w.Object, w.Problem, w.Text = nil, err, slices.Clone(text)
	}
	return nil
}

// DeepCopyObject copies the metadata; the rest is only ever read.
func (w *Written[T]) DeepCopyObject() runtime.Object {
	out := *w
	w.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// WrittenList is a list of objects as somebody wrote them.
type WrittenList[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Written[T] `json:"items"`
}

// DeepCopyObject copies the list; its items are only ever read.
func (l *WrittenList[T]) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	return &out
}

// NewWrittenClient is NewObjectClient for objects that may be written so that they cannot be read. It knows the kind itself and needs no scheme.
func NewWrittenClient[T any](c *Connection, shared *http.Client, of schema.GroupVersionKind, resource string) (*gentype.ClientWithList[*Written[T], *WrittenList[T]], error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(of, &Written[T]{})
	scheme.AddKnownTypeWithName(of.GroupVersion().WithKind(of.Kind+"List"), &WrittenList[T]{})
	metav1.AddToGroupVersion(scheme, of.GroupVersion())
	return NewObjectClient[Written[T], WrittenList[T]](scheme, c, shared, of.GroupVersion(), resource)
}
