package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/reach"
	kubevpa "hilbert.dev/hilbert/kube/vpa"
)

// vpaAnswer is what was decided about a VerticalPodAutoscaler, why, and what it waits for.
type vpaAnswer struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Target      string `json:"target"`
	Recommender string `json:"recommender"`
	// Mode is ours, UpdateMode VPA's.
	Mode       string `json:"mode"`
	UpdateMode string `json:"updateMode"`

	Containers []kubevpa.ContainerRecommendation `json:"containers,omitempty"`
	// Reasons say where the numbers come from, or why there are none.
	Reasons []string `json:"reasons,omitempty"`
	// Applied: pods have what is recommended. Why says why not yet, and Waits what for.
	Applied bool     `json:"applied"`
	Why     string   `json:"why,omitempty"`
	Waits   []string `json:"waits,omitempty"`
	// Rooms are kept for pods that grow.
	Rooms []growthRoom `json:"rooms,omitempty"`
	// Unread says why Rooms are not known.
	Unread string `json:"unread,omitempty"`
	// Notes are what else the status says.
	Notes []string `json:"notes,omitempty"`
}

// growthRoom is a Reservation for what a pod grows by.
type growthRoom struct {
	Reservation string            `json:"reservation"`
	Pod         string            `json:"podUID"`
	State       string            `json:"state"`
	Node        string            `json:"node,omitempty"`
	Amounts     map[string]string `json:"amounts"`
	Message     string            `json:"message,omitempty"`
}

// vpa reads the object, which has what was decided, and the room that is kept.
func (f *flags) vpa(ctx context.Context, namespace, name string) (*vpaAnswer, error) {
	var v kubevpa.Autoscaler
	inspector, err := f.read(ctx, kindVPA, "VerticalPodAutoscalers", kubevpa.Path(namespace)+"/"+name, &v)
	if err != nil {
		return nil, err
	}
	a := answerOf(&v)
	a.Rooms, err = rooms(ctx, inspector, namespace)
	if err != nil {
		a.Unread = err.Error()
	}
	return a, nil
}

// rooms are the Reservations for pods of the namespace that grow.
func rooms(ctx context.Context, inspector *reach.Inspector, namespace string) (out []growthRoom, err error) {
	var list v1alpha1.ReservationList
	if err := inspector.Get(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+namespace+"/"+v1alpha1.Reservations+"?labelSelector="+spec.LabelGrowth, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		o := &list.Items[i]
		r := growthRoom{Reservation: o.Name, Pod: o.Labels[spec.LabelGrowth], State: "Waiting", Amounts: make(map[string]string)}
		for k := range o.Spec.Template.Spec.Containers {
			for resource, amount := range o.Spec.Template.Spec.Containers[k].Resources.Requests {
				r.Amounts[string(resource)] = amount.String()
			}
		}
		for _, c := range o.Status.Conditions {
			r.Message = cmp.Or(c.Message, r.Message)
		}
		for _, place := range o.Status.Places {
			r.State, r.Node = place.State, place.Node
		}
		out = append(out, r)
	}
	return out, nil
}

// answerOf is what the object's status says.
func answerOf(v *kubevpa.Autoscaler) *vpaAnswer {
	a := &vpaAnswer{
		Namespace: v.Namespace, Name: v.Name, Target: v.Spec.TargetRef.Kind + " " + v.Spec.TargetRef.Name,
		Recommender: "default", Mode: cmp.Or(v.Annotations[spec.AnnotationRecommendationMode], string(recommend.ModeOff)), UpdateMode: cmp.Or(v.Spec.UpdatePolicy.UpdateMode, vpa.UpdateDefault),
	}
	if v.Status.Recommendation != nil {
		a.Containers = v.Status.Recommendation.Containers
	}
	if len(v.Spec.Recommenders) > 0 {
		a.Recommender = v.Spec.Recommenders[0].Name
	}
	for i := range v.Status.Conditions {
		c := &v.Status.Conditions[i]
		lines := strings.Split(c.Message, "\n")
		switch c.Type {
		case vpa.RecommendationProvided:
			a.Reasons = lines
		case vpa.Applied:
			a.Applied, a.Why, a.Waits = c.Status == corev1.ConditionTrue, c.Reason, lines
		default:
			if c.Status == corev1.ConditionTrue {
				a.Notes = append(a.Notes, strings.TrimSuffix(c.Type+": "+c.Message, ": "))
			}
		}
	}
	return a
}

// WriteText renders the answer.
func (a *vpaAnswer) WriteText(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "VerticalPodAutoscaler %s/%s of %s: recommender %s, mode %s (updateMode %s)\n", a.Namespace, a.Name, a.Target, a.Recommender, a.Mode, a.UpdateMode)
	if len(a.Containers) > 0 {
		out.WriteString("\n")
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "CONTAINER\tRESOURCE\tTARGET\tLOWER\tUPPER\tUNCAPPED")
		for i := range a.Containers {
			c := &a.Containers[i]
			for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				row := []string{c.ContainerName, string(resource)}
				for _, list := range []corev1.ResourceList{c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget} {
					text := ""
					if amount, there := list[resource]; there {
						text = amount.String()
					}
					row = append(row, text)
				}
				if row[2] != "" {
					fmt.Fprintln(table, strings.Join(row, "\t"))
				}
			}
		}
		_ = table.Flush() // to memory
	}
	section(&out, "Why", a.Reasons)
	section(&out, "Also", a.Notes)
	switch {
	case a.Applied:
		out.WriteString("\nPods have it.\n")
	case a.Why == "":
		out.WriteString("\nHilbert's controller has not said anything about it. Does it run with controller.recommendation.enabled, and is its recommender named here?\n")
	default:
		section(&out, "Not applied ("+a.Why+")", a.Waits)
	}
	var kept []string
	for i := range a.Rooms {
		kept = append(kept, a.Rooms[i].String())
	}
	section(&out, "Room for growth in the namespace", kept)
	if a.Unread != "" {
		section(&out, "Room for growth in the namespace", []string{"not known: " + a.Unread})
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// String tells of the room in a line.
func (r *growthRoom) String() string {
	said := []string{fmt.Sprintf("%s: %s", r.Reservation, r.State)}
	if r.Node != "" {
		said[0] += " on node " + r.Node
	}
	for _, resource := range slices.Sorted(maps.Keys(r.Amounts)) {
		said = append(said, resource+" "+r.Amounts[resource])
	}
	text := strings.Join(said, ", ")
	if r.State == "Waiting" && r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// section writes lines below a title, if there are any.
func section(out *strings.Builder, title string, lines []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return s == "" })
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(out, "  %s\n", line)
	}
}
