package write

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/topology"
)

func TestReservationStatusIsReadBack(t *testing.T) {
	grant := topology.Grant{GPUs: 0b110, Milli: topology.FullGPU}
	view := cluster.ReservationView{UID: "uid-r", Namespace: "ns", Name: "r", Generation: 3, Places: []cluster.PlaceView{
		{Place: facts.Place{Index: 0, State: facts.PlaceReserved, Node: "n1", Grant: grant}},
		{Place: facts.Place{Index: 1, State: facts.PlaceConsumed, Node: "n2", Pod: "p"}},
		{Place: facts.Place{Index: 2, State: facts.PlaceLost, Node: "n3", Reason: "RoomTaken", Message: "m"}},
		{Place: facts.Place{Index: 3}},
	}}
	body, err := reservationBody(&bind.Write{Reservation: &view}, time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "uid-r"}}
	r.Spec.Template.Spec = corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{Name: "c"}}}
	var patch []struct{ Value json.RawMessage }
	if err := json.Unmarshal(body, &patch); err != nil || len(patch) != 2 {
		t.Fatal(string(body), err)
	}
	if err := json.Unmarshal(patch[1].Value, &r.Status); err != nil {
		t.Fatal(err)
	}
	r.Spec.Count = 4
	r.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": apiresource.MustParse("2")}
	seen, ok := parse.NewParser("hilbert", nil).Reservation(r, func(string) (int32, bool) { return 0, true })
	if !ok || len(seen.Places) != 3 || string(patch[0].Value) != `"uid-r"` {
		t.Fatalf("got %+v from %s", seen, body)
	}
	for i, place := range seen.Places {
		if place != view.Places[i].Place {
			t.Errorf("place %d: %+v, was %+v", i, place, view.Places[i].Place)
		}
	}
	if seen.Reported != view.Report() || seen.ReportedSince != 100e9 {
		t.Errorf("reported %+v since %d, was %+v", seen.Reported, seen.ReportedSince, view.Report())
	}
}

// What is written about a Reservation that is gone does not come to one that was made anew under its name.
func TestStatusOfAnotherReservation(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.Offer("reservations.scheduling.hilbert.dev", "v1alpha1")
	r.server.Set(standin.FromYAML(t, "{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Reservation, metadata: {namespace: ns, name: r, uid: second}}"))
	for _, uid := range []facts.UID{"first", "second"} {
		view := cluster.ReservationView{UID: uid, Namespace: "ns", Name: "r", Places: []cluster.PlaceView{{Place: facts.Place{State: facts.PlaceReserved, Node: "n1"}}}}
		r.expect(t, bind.Write{Kind: bind.WriteReservation, Namespace: "ns", Name: "r", Reservation: &view}, map[facts.UID]bind.Outcome{"first": bind.Refused, "second": bind.Written}[uid])
		_, told := r.server.Stored("reservations.scheduling.hilbert.dev", "ns", "r").Object["status"]
		if told != (uid == "second") {
			t.Errorf("after a write about the %s one the second one has a status: %v", uid, told)
		}
	}
}
