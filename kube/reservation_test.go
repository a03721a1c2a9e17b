package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

func reservation(name, uid, class string) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	r.Spec.Count = 2
	r.Spec.Template.Spec = corev1.PodSpec{SchedulerName: "hilbert", PriorityClassName: class, Containers: []corev1.Container{{Name: "c"}}}
	return r
}

func written(r *v1alpha1.Reservation) *writtenReservation {
	return &writtenReservation{ObjectMeta: r.ObjectMeta, Object: r}
}

func TestReservationBook(t *testing.T) {
	told := &collector{}
	book := newReservationBook(told, parse.NewParser("hilbert", nil))
	objects, classes := reservationSink{book}, prioritySink{book}
	class := func(name string, value int32) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	}
	r := reservation("r", "uid-r", "gold")
	anew := r.DeepCopy()
	anew.UID = "uid-anew"
	foreign := reservation("f", "uid-f", "")
	foreign.Spec.Template.Spec.SchedulerName = "other"
	unreadable := &writtenReservation{ObjectMeta: r.ObjectMeta, Problem: errors.New("its template is none")}
	for i, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return objects.Replace([]any{written(r), written(foreign)}, "1") }, ""}, // the classes are not known yet
		{func() error { return classes.Replace([]any{class("silver", 5)}, "1") }, `reservation ns/r of 2, priority 0, problem "PriorityClassMissing", places []`},
		{func() error { return classes.Add(class("gold", 9)) }, `reservation ns/r of 2, priority 9, problem "", places []`},
		{func() error { return classes.Delete(class("gold", 9)) }, ""},
		{func() error { return objects.Update(written(r)) }, `reservation ns/r of 2, priority 9, problem "", places []`}, // pods keep theirs, too
		{func() error { return objects.Update(written(anew)) }, `reservation uid-r gone; reservation ns/r of 2, priority 0, problem "PriorityClassMissing", places []`},
		{func() error { return objects.Delete(written(anew)) }, "reservation uid-anew gone"},
		{func() error { return objects.Delete(written(foreign)) }, ""},
		{func() error { return objects.Add(written(r)) }, `reservation ns/r of 2, priority 0, problem "PriorityClassMissing", places []`},
		{func() error { return objects.Update(unreadable) }, "reservation uid-r gone"},
		{func() error { return objects.Replace([]any{unreadable, written(r)}, "2") }, `reservation ns/r of 2, priority 0, problem "PriorityClassMissing", places []`},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
}

// What a status says is read back as it was: a new leader restores what an earlier one has kept.
// A template without a class has the priority that the API server gives such pods: the least of the classes that say they are the default, else 0.
func TestReservationDefaultPriority(t *testing.T) {
	told := &collector{}
	book := newReservationBook(told, parse.NewParser("hilbert", nil))
	var classes []any
	for i, want := range []string{"0", "7", "3", "3"} {
		if err := (prioritySink{book}).Replace(classes, "1"); err != nil {
			t.Fatal(err)
		}
		if err := (reservationSink{book}).Replace([]any{written(reservation("r", fmt.Sprint("uid-", i), ""))}, "1"); err != nil {
			t.Fatal(err)
		}
		if got := told.take(); !strings.Contains(got, "priority "+want+",") {
			t.Errorf("with %d classes: told %q, want priority %s", i, got, want)
		}
		classes = append(classes, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("class-", i)}, Value: []int32{7, 3, 5, 1}[i], GlobalDefault: i < 3})
	}
}

// The definition leaves a template open. One that is no pod template keeps no other Reservation from being read, nor the scheduler from having its lists.
func TestUnreadableReservation(t *testing.T) {
	server := standin.New(t)
	server.Offer("reservations.scheduling.hilbert.dev", "v1alpha1")
	server.Offer("priorityclasses.scheduling.k8s.io", "v1")
	server.Set(standin.FromYAML(t, "{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Reservation, metadata: {namespace: evil, name: r, uid: u1}, spec: {template: {spec: {schedulerName: hilbert, containers: none}}}}"))
	server.Set(standin.FromYAML(t, "{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Reservation, metadata: {namespace: ns, name: r, uid: u2}, spec: {template: {spec: {schedulerName: hilbert}}}}"))
	w := startWatch(t, server, quiet)
	var got []*facts.Reservation
	for lists := (Lists{}); !lists.Complete(); {
		event := <-w.Events()
		lists.Note(event)
		if listed, ok := event.(facts.ReservationsListed); ok {
			got = listed.Reservations
		}
	}
	if len(got) != 1 || got[0].UID != "u2" {
		t.Errorf("read %+v, want the one that can be read", got)
	}
}
