package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

const reservationsPath = "/apis/scheduling.hilbert.dev/v1alpha1/namespaces/default/reservations"

// reservedRig has a namespace with Reservations, and groups of nodes of 8 cores that pods and templates select.
type reservedRig struct{ *rig }

// api is the REST client of the API server.
func (r reservedRig) api() rest.Interface { return r.client.Discovery().RESTClient() }

// keep creates a Reservation of places of 6 cores in a group of nodes.
func (r reservedRig) keep(name, group, class, ttl string, count int) error {
	body := fmt.Sprintf(`{"apiVersion": "scheduling.hilbert.dev/v1alpha1", "kind": "Reservation", "metadata": {"name": %q}, "spec": {
		"count": %d, "ttl": %q, "owners": [{"selector": {"matchLabels": {"keeps": %q}}}],
		"template": {"metadata": {"labels": {"keeps": %[4]q}}, "spec": {"schedulerName": "hilbert", "priorityClassName": %[5]q, "nodeSelector": {"group": %[6]q},
			"containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": "6"}}}]}}}}`, name, count, ttl, name, class, group)
	return r.api().Post().AbsPath(reservationsPath).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(r.t.Context()).Error()
}

// kept returns a Reservation.
func (r reservedRig) kept(name string) (*v1alpha1.Reservation, error) {
	text, err := r.api().Get().AbsPath(reservationsPath, name).SetHeader("Accept", "application/json").DoRaw(r.t.Context())
	if err != nil {
		return nil, err
	}
	var got v1alpha1.Reservation
	return &got, json.Unmarshal(text, &got)
}

// await waits until a Reservation's status says of its places what is wanted, by state, and returns it.
func (r reservedRig) await(name string, waiting, reserved, consumed, lost int32) *v1alpha1.Reservation {
	r.t.Helper()
	var got *v1alpha1.Reservation
	r.until("the places of "+name, func() (err error) {
		if got, err = r.kept(name); err != nil {
			return err
		}
		s := &got.Status
		if s.Waiting != waiting || s.Reserved != reserved || s.Consumed != consumed || s.Lost != lost || s.ObservedGeneration != got.Generation {
			return fmt.Errorf("%+v", *s)
		}
		return nil
	})
	return got
}

// until waits until what is asked for is so.
func (r reservedRig) until(what string, ask func() error) {
	r.t.Helper()
	err := errors.New("not asked")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	r.t.Fatalf("%s: not so within %s: %v", what, patience, err)
}

// pod creates a pod; it may be an owner of a Reservation.
func (r reservedRig) pod(name, group, class, cpu, keeps string) {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: "hilbert", PriorityClassName: class, NodeSelector: map[string]string{"group": group},
		Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}},
	}}
	if keeps != "" {
		pod.Labels = map[string]string{"keeps": keeps}
	}
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r reservedRig) get(name string) (*corev1.Pod, error) {
	return r.client.CoreV1().Pods(metav1.NamespaceDefault).Get(r.t.Context(), name, metav1.GetOptions{})
}

// bound waits until a pod has a place, and returns it.
func (r reservedRig) bound(name string) (pod *corev1.Pod) {
	r.t.Helper()
	r.until("a place for "+name, func() (err error) {
		if pod, err = r.get(name); err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("%+v", pod.Status.Conditions)
		}
		return err
	})
	return pod
}

// refused waits until the scheduler has said of a pod that it fits nowhere.
func (r reservedRig) refused(name string) {
	r.t.Helper()
	r.until("a condition of "+name, func() error {
		pod, err := r.get(name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			r.t.Fatalf("%s is on %s, where the room is kept for others", name, pod.Spec.NodeName)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return errors.New("it has none")
	})
}

func newReservedRig(t *testing.T) reservedRig {
	r := reservedRig{newRigOf(t, rigOptions{definitions: true})}
	for name, value := range map[string]int32{"low": 10, "high": 100} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := r.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var shapes []hollow.Shape
	for name, group := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "c1": "c"} {
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{"group": group}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}})
	}
	fleet, err := hollow.Run(t.Context(), r.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	fleet.Stop()
	r.ledger.addNodes(shapes)
	return r
}

// TestReservations: places are kept over kill -9 of the leader, for their owners alone; they end by their TTL, by priority, and by a foreign binder who takes the room, each with a reason.
func TestReservations(t *testing.T) {
	r := newReservedRig(t)
	if err := r.keep("web", "a", "low", "1h", 2); err != nil {
		t.Fatal(err)
	}
	before := r.await("web", 0, 2, 0, 0)
	leader, err := r.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.daemons[leader].kill(), r.restart(leader)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.leader(t.Context()); err != nil { // the standby, or the process that was started in the place of the leader
		t.Fatal(err)
	}

	// The next leader keeps the same places. Nobody of the same priority gets in, and an owner does.
	r.pod("stranger", "a", "low", "4", "")
	r.refused("stranger")
	r.pod("web-0", "a", "low", "6", "web")
	owner := r.bound("web-0")
	if place := owner.Annotations[spec.AnnotationReservation]; !strings.HasPrefix(place, string(before.UID)+"/") {
		t.Errorf("web-0 is on %s, and has the place %q", owner.Spec.NodeName, place)
	}
	after := r.await("web", 0, 1, 1, 0)
	left := ""
	for i, place := range after.Status.Places {
		if place.Node != before.Status.Places[i].Node {
			t.Errorf("place %d was on %s, and is on %s", i, before.Status.Places[i].Node, place.Node)
		}
		switch {
		case place.State == "Consumed" && (place.Pod != "web-0" || place.Node != owner.Spec.NodeName):
			t.Errorf("web-0 is on %s, and the status says %+v", owner.Spec.NodeName, place)
		case place.State == "Reserved":
			left = place.Node
		}
	}
	r.refused("stranger")

	// A foreign binder takes the room: the place is lost, before anybody relied on it.
	r.foreign("foreign", left)
	lost := r.await("web", 0, 0, 1, 1)
	r.lostBecause(lost, "RoomTaken")
	r.until("the Event", func() error {
		events, err := r.client.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == spec.ReasonEventPlaceLost && e.Regarding.Kind == "Reservation" && e.Regarding.UID == lost.UID && strings.Contains(e.Note, "RoomTaken") {
				return nil
			}
		}
		return fmt.Errorf("among %d there is none", len(events.Items))
	})

	// A pod of higher priority has the room.
	if err := r.keep("batch", "b", "low", "1h", 1); err != nil {
		t.Fatal(err)
	}
	r.await("batch", 0, 1, 0, 0)
	r.pod("vip", "b", "high", "6", "")
	r.bound("vip")
	r.lostBecause(r.await("batch", 0, 0, 0, 1), "Preempted")

	// Its time is over; who waited has the room.
	if err := r.keep("short", "c", "low", "5s", 1); err != nil {
		t.Fatal(err)
	}
	r.await("short", 0, 1, 0, 0)
	r.pod("next", "c", "low", "6", "")
	r.bound("next")
	r.lostBecause(r.await("short", 0, 0, 0, 1), "Expired")
	r.refusesSpecs()
	if _, breaches, _ := r.ledger.count(); len(breaches) > 0 {
		t.Error(strings.Join(breaches, "\n"))
	}
}

// foreign binds a pod of another scheduler.
func (r reservedRig) foreign(name, node string) {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{SchedulerName: "another", Containers: []corev1.Container{{
		Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}},
	}}}}
	pods := r.client.CoreV1().Pods(metav1.NamespaceDefault)
	_, err := pods.Create(r.t.Context(), pod, metav1.CreateOptions{})
	err = errors.Join(err, pods.Bind(r.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r reservedRig) lostBecause(kept *v1alpha1.Reservation, reason string) {
	r.t.Helper()
	for _, place := range kept.Status.Places {
		if place.State == "Lost" && place.Reason != reason {
			r.t.Errorf("%s has lost a place: %+v, want %s", kept.Name, place, reason)
		}
	}
}

// refusesSpecs: what the definition refuses, with its words.
func (r reservedRig) refusesSpecs() {
	r.t.Helper()
	patch := func(ctx context.Context, body string) error {
		return r.api().Patch("application/merge-patch+json").AbsPath(reservationsPath, "web").Body([]byte(body)).Do(ctx).Error()
	}
	for want, got := range map[string]error{
		"only ttl can be changed":                     patch(r.t.Context(), `{"spec":{"count":3}}`),
		"an entry that names nothing is about no pod": patch(r.t.Context(), `{"spec":{"owners":[{}]}}`),
		"it must lie between 1s and 8760h":            patch(r.t.Context(), `{"spec":{"ttl":"9000h"}}`),
		"spec.ttl":                                    patch(r.t.Context(), `{"spec":{"ttl":"soon"}}`),
	} {
		if got == nil || !strings.Contains(got.Error(), want) {
			r.t.Errorf("got %v, want it refused with %q", got, want)
		}
	}
	if err := patch(r.t.Context(), `{"spec":{"ttl":"2h"}}`); err != nil {
		r.t.Errorf("for longer: %v", err)
	}
}
