package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/schedule/inspect"
)

// podAnswer is where a pod is, and where it is about to be moved.
type podAnswer struct {
	*inspect.Answer
	Move *move `json:"move,omitempty"`
}

// reservationAnswer is how a Reservation stands, and for what Hilbert's controller made it.
type reservationAnswer struct {
	*inspect.ReservationAnswer
	Move *move `json:"move,omitempty"`
	// Growth is the pod for whose growth it keeps room.
	Growth string `json:"growth,omitempty"`
}

// move is one that the controller has begun: the target is reserved first, then the pod is evicted.
type move struct {
	Reservation string `json:"reservation"`
	Pod         string `json:"pod"`
	From        string `json:"from"`
	To          string `json:"to"`
	Reason      string `json:"reason"`
	Why         string `json:"why,omitempty"`
	// Members is of how many pods, where a gang is moved whole.
	Members int `json:"members,omitempty"`
	// Target is the state of its place, or of the first of a gang's.
	Target string `json:"target"`
}

func (f *flags) pod(ctx context.Context, namespace, name string) (podAnswer, error) {
	answer, err := f.Pod(ctx, namespace, name)
	a := podAnswer{Answer: answer}
	if err != nil || answer.Node == "" {
		return a, err
	}
	if r := f.object(ctx, namespace, v1alpha1.MovePrefix+string(answer.UID)); r != nil {
		a.Move = moveOf(r)
	}
	return a, nil
}

func (f *flags) reservation(ctx context.Context, namespace, name string) (reservationAnswer, error) {
	answer, err := f.Reservation(ctx, namespace, name)
	a := reservationAnswer{ReservationAnswer: answer}
	if err != nil {
		return a, err
	}
	if r := f.object(ctx, namespace, name); r != nil {
		a.Move, a.Growth = moveOf(r), r.Labels[spec.LabelGrowth]
	}
	return a, nil
}

// object reads a Reservation; nil: it is not there, or there is no API server to ask, and then nothing is said of it.
func (f *flags) object(ctx context.Context, namespace, name string) *v1alpha1.Reservation {
	if f.From != "" || f.Target.Server != "" {
		return nil
	}
	inspector, err := reach.Reach(f.Target)
	if err != nil {
		return nil
	}
	var r v1alpha1.Reservation
	if inspector.Get(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+namespace+"/"+v1alpha1.Reservations+"/"+name, &r) != nil {
		return nil
	}
	return &r
}

// moveOf is the move whose target a Reservation keeps; nil: it keeps none.
func moveOf(r *v1alpha1.Reservation) *move {
	w, ok := moves.Of(r)
	if !ok {
		return nil
	}
	m := &move{Reservation: r.Namespace + "/" + r.Name, Pod: w.Name, From: w.From, To: w.To, Reason: w.Reason, Why: w.Why, Target: "Waiting"}
	if w.Gang != nil {
		m.Members = len(w.Gang.Members)
	}
	if len(r.Status.Places) > 0 {
		m.Target = r.Status.Places[0].State
	}
	return m
}

// String says what is done, why, and what it waits for.
func (m *move) String() string {
	what := "pod " + m.Pod
	if m.Members > 0 {
		what = fmt.Sprintf("the gang of pod %s, %d pods,", m.Pod, m.Members)
	}
	text := fmt.Sprintf("A move of %s from %s to %s is under way (%s): %s. ", what, m.From, cmp.Or(m.To, "several nodes"), m.Reason, cmp.Or(m.Why, "no more is said"))
	switch m.Target {
	case "Waiting":
		return text + "It waits for its target to be reserved; nothing is evicted before."
	case "Reserved":
		return text + "Its target is reserved; the eviction is asked for as the budget and disruption budgets allow."
	case "Consumed":
		return text + "The replacement has its place."
	}
	return text + "Its target was lost."
}

// WriteText renders the answer.
func (a podAnswer) WriteText(w io.Writer) error {
	if err := render.Pod(w, a.Answer); err != nil || a.Move == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s hilbert explain reservation %s says more.\n", a.Move, a.Move.Reservation)
	return err
}

// WriteText renders the answer.
func (a reservationAnswer) WriteText(w io.Writer) error {
	if err := render.Reservation(w, a.ReservationAnswer); err != nil {
		return err
	}
	switch {
	case a.Move != nil:
		_, err := fmt.Fprintf(w, "\n%s\n", a.Move)
		return err
	case a.Growth != "":
		_, err := fmt.Fprintf(w, "\nIt keeps room for pod %s, which is to grow: hilbert explain vpa says why.\n", a.Growth)
		return err
	}
	return nil
}
