package v1alpha1

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/crdtest"
)

// The definition of Reservations names the types, has their fields and no others, and bounds what people write.
func TestReservationDefinition(t *testing.T) {
	d := crdtest.Read(t, "reservation.yaml")
	if d.Name != Reservations+"."+Group || d.Group != Group || d.Scope != "Namespaced" || d.Kind != "Reservation" || d.Plural != Reservations || d.Version != Version || !d.Status {
		t.Errorf("got %+v", d)
	}
	d.Compare(t, reflect.TypeFor[Reservation](), crdtest.Rules{
		Texts:   []reflect.Type{reflect.TypeFor[metav1.Duration](), reflect.TypeFor[metav1.Time]()},
		Trees:   []reflect.Type{reflect.TypeFor[corev1.PodTemplateSpec]()},
		Lenient: true,
	})
}
