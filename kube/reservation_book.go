package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// reservationBook parses Reservations, whose priority is in a PriorityClass. It sends nothing before it has the lists of both. A PriorityClass that comes later has
// the Reservations parsed anew that lacked it; one that goes leaves the pods, and so the places, what they have.
type reservationBook struct {
	mu       sync.Mutex
	out      receiver
	parser   *parse.Parser
	classes  map[string]*schedulingv1.PriorityClass // nil before the first list
	objects  map[cache.ObjectName]*v1alpha1.Reservation
	listed   bool
	priority map[facts.UID]int32 // of Reservations, once it is known
	sent     map[cache.ObjectName]facts.UID
}

func newReservationBook(out receiver, parser *parse.Parser) *reservationBook {
	return &reservationBook{
		out: out, parser: parser, objects: make(map[cache.ObjectName]*v1alpha1.Reservation), priority: make(map[facts.UID]int32), sent: make(map[cache.ObjectName]facts.UID),
	}
}

// parse reads a Reservation with what is known of its priority.
func (b *reservationBook) parse(r *v1alpha1.Reservation) (*facts.Reservation, bool) {
	return b.parser.Reservation(r, func(class string) (int32, bool) {
		value, ok := b.valueOf(class)
		if ok {
			b.priority[facts.UID(r.UID)] = value
		} else {
			value, ok = b.priority[facts.UID(r.UID)]
		}
		return value, ok
	})
}

func (b *reservationBook) valueOf(class string) (int32, bool) {
	if class != "" {
		known, ok := b.classes[class]
		if !ok {
			return 0, false
		}
		return known.Value, true
	}
	value, found := int32(0), false
	for _, known := range b.classes {
		if known.GlobalDefault && (!found || known.Value < value) { // of several defaults the API server gives pods the least
			value, found = known.Value, true
		}
	}
	return value, true
}

// tellAll sends all Reservations, once both lists are there.
func (b *reservationBook) tellAll() error {
	if !b.listed || b.classes == nil {
		return nil
	}
	clear(b.sent)
	var list []*facts.Reservation
	for _, name := range slices.SortedFunc(maps.Keys(b.objects), func(x, y cache.ObjectName) int { return strings.Compare(x.String(), y.String()) }) {
		if seen, ours := b.parse(b.objects[name]); ours {
			list = append(list, seen)
			b.sent[name] = seen.UID
		}
	}
	return b.out.send(facts.ReservationsListed{Reservations: list})
}

func (b *reservationBook) tell(name cache.ObjectName) error {
	if !b.listed || b.classes == nil {
		return nil
	}
	old, told := b.sent[name]
	object := b.objects[name]
	if told && (object == nil || facts.UID(object.UID) != old) {
		delete(b.sent, name)
		delete(b.priority, old)
		if err := b.out.send(facts.ReservationRemoved{UID: old}); err != nil {
			return err
		}
	}
	if object == nil {
		return nil
	}
	seen, ours := b.parse(object)
	if !ours {
		return nil
	}
	b.sent[name] = seen.UID
	return b.out.send(facts.ReservationUpserted{Reservation: seen})
}

// writtenReservation is a Reservation as somebody wrote it: its template may be anything.
type writtenReservation = apiserver.Written[v1alpha1.Reservation]

// reservationSink is what the reflector of Reservations fills instead of a cache.
type reservationSink struct{ *reservationBook }

var _ cache.ReflectorStore = reservationSink{}

// Add takes in a Reservation that was created.
func (s reservationSink) Add(object any) error { return s.upsert(object) }

// Update takes in one that was changed.
func (s reservationSink) Update(object any) error { return s.upsert(object) }

func (s reservationSink) upsert(object any) error {
	r, ok := object.(*writtenReservation)
	if !ok {
		return fmt.Errorf("reservation watch: got a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(r)
	return s.tell(cache.MetaObjectToName(r))
}

// keep notes a Reservation. One that cannot be read keeps no room.
func (s reservationSink) keep(r *writtenReservation) {
	name := cache.MetaObjectToName(r)
	if r.Problem != nil {
		delete(s.objects, name)
		s.parser.UnreadableReservation(name.String(), r.Problem)
		return
	}
	s.objects[name] = r.Object
}

// Delete takes in one that is gone.
func (s reservationSink) Delete(object any) error {
	r, ok := object.(*writtenReservation)
	if !ok {
		return fmt.Errorf("reservation watch: got a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := cache.MetaObjectToName(r)
	delete(s.objects, name)
	return s.tell(name)
}

// Replace takes in a whole list.
func (s reservationSink) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.objects)
	for _, object := range objects {
		r, ok := object.(*writtenReservation)
		if !ok {
			return fmt.Errorf("reservation list: got a %T", object)
		}
		s.keep(r)
	}
	s.listed = true
	return s.tellAll()
}

// Resync does nothing: no event is ever lost, so none is repeated.
func (s reservationSink) Resync() error { return nil }

// prioritySink is what the reflector of PriorityClasses fills.
type prioritySink struct{ *reservationBook }

var _ cache.ReflectorStore = prioritySink{}

// Add takes in a PriorityClass that was created.
func (s prioritySink) Add(object any) error { return s.upsert(object) }

// Update takes in one that was changed; its value never is.
func (s prioritySink) Update(object any) error { return s.upsert(object) }

func (s prioritySink) upsert(object any) error {
	class, ok := object.(*schedulingv1.PriorityClass)
	if !ok {
		return fmt.Errorf("watch of priority classes: got a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.classes == nil {
		return nil
	}
	s.classes[class.Name] = class
	return s.tellLacking(class)
}

// tellLacking sends the Reservations that name a class which was not known.
func (s prioritySink) tellLacking(class *schedulingv1.PriorityClass) error {
	for _, name := range slices.SortedFunc(maps.Keys(s.objects), func(x, y cache.ObjectName) int { return strings.Compare(x.String(), y.String()) }) {
		r := s.objects[name]
		if _, known := s.priority[facts.UID(r.UID)]; !known && r.Spec.Template.Spec.PriorityClassName == class.Name {
			if err := s.tell(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete takes in one that is gone.
func (s prioritySink) Delete(object any) error {
	class, ok := object.(*schedulingv1.PriorityClass)
	if !ok {
		return fmt.Errorf("watch of priority classes: got a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.classes, class.Name)
	return nil
}

// Replace takes in a whole list.
func (s prioritySink) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.classes = make(map[string]*schedulingv1.PriorityClass, len(objects))
	for _, object := range objects {
		class, ok := object.(*schedulingv1.PriorityClass)
		if !ok {
			return fmt.Errorf("list of priority classes: got a %T", object)
		}
		s.classes[class.Name] = class
	}
	return s.tellAll()
}

// Resync does nothing.
func (s prioritySink) Resync() error { return nil }
