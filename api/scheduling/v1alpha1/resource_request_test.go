package v1alpha1

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/crdtest"
)

// The definition of ResourceRequests names the types, has their fields and no others, and bounds what people write.
func TestResourceRequestDefinition(t *testing.T) {
	d := crdtest.Read(t, "resourcerequest.yaml")
	if d.Name != ResourceRequests+"."+Group || d.Group != Group || d.Scope != "Namespaced" || d.Kind != "ResourceRequest" || d.Plural != ResourceRequests || d.Version != Version || !d.Status {
		t.Errorf("got %+v", d)
	}
	d.Compare(t, reflect.TypeFor[ResourceRequest](), crdtest.Rules{
		Texts:   []reflect.Type{reflect.TypeFor[metav1.Duration](), reflect.TypeFor[metav1.Time]()},
		Amounts: []reflect.Type{reflect.TypeFor[resource.Quantity]()},
		Trees:   []reflect.Type{reflect.TypeFor[corev1.PodTemplateSpec]()},
		Lenient: true,
	})
}
