package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/resource"
)

// view is what the API server has at one moment, or nearly: one list after the other.
type view struct {
	pods   map[string]*corev1.Pod // by namespace/name
	groups map[string]*schedulingv1beta1.PodGroup
	queues map[string]*v1alpha1.Queue
	kept   []v1alpha1.Reservation
}

// look lists everything, and fails where a node holds more than it has.
func (p *player) look(ctx context.Context) (*view, error) {
	v := &view{
		pods: make(map[string]*corev1.Pod), groups: make(map[string]*schedulingv1beta1.PodGroup), queues: make(map[string]*v1alpha1.Queue),
	}
	pods, err := p.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		v.pods[pods.Items[i].Namespace+"/"+pods.Items[i].Name] = &pods.Items[i]
	}
	groups, err := p.client.SchedulingV1beta1().PodGroups(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	for i := range groups.Items {
		v.groups[groups.Items[i].Namespace+"/"+groups.Items[i].Name] = &groups.Items[i]
	}
	var queues v1alpha1.QueueList
	if err := p.Stage.queues.Get().Resource(v1alpha1.Queues).Do(ctx).Into(&queues); err != nil {
		return nil, fmt.Errorf("list Queues: %w", err)
	}
	for i := range queues.Items {
		v.queues[queues.Items[i].Name] = &queues.Items[i]
	}
	var kept v1alpha1.ReservationList
	if err := p.Stage.queues.Get().Resource(v1alpha1.Reservations).Do(ctx).Into(&kept); err != nil {
		return nil, fmt.Errorf("list Reservations: %w", err)
	}
	v.kept = kept.Items
	return v, p.audit(v)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// runs reports whether the pod is on a node and has not ended.
func runs(pod *corev1.Pod) bool { return pod != nil && pod.Spec.NodeName != "" && !ended(pod) }

// holds is what a pod takes of its node.
func holds(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	sum := map[corev1.ResourceName]int64{corev1.ResourcePods: 1000}
	for i := range pod.Spec.Containers {
		for name, quantity := range pod.Spec.Containers[i].Resources.Requests {
			sum[name] += quantity.MilliValue()
		}
	}
	return sum
}

// audit adds up what the nodes hold.
func (p *player) audit(v *view) error {
	taken := make(map[string]map[corev1.ResourceName]int64)
	for _, pod := range v.pods {
		if !runs(pod) {
			continue
		}
		at := taken[pod.Spec.NodeName]
		if at == nil {
			at = make(map[corev1.ResourceName]int64)
			taken[pod.Spec.NodeName] = at
		}
		for name, n := range holds(pod) {
			at[name] += n
		}
	}
	for name, sums := range taken {
		node := p.nodes[name]
		if node == nil {
			return fmt.Errorf("pods are bound to %s, which is no node", name)
		}
		for r, n := range sums {
			if has := node.Status.Allocatable[r]; n > has.MilliValue() {
				return fmt.Errorf("node %s holds %d of %d thousandths of %s", name, n, has.MilliValue(), r)
			}
		}
	}
	return nil
}

// state is what the files print.
func (p *player) state(v *view) *scenario.State {
	s := &scenario.State{}
	for _, c := range p.sets {
		s.Sets = append(s.Sets, p.stateOf(c, v))
	}
	books := p.books(v)
	for _, name := range slices.Sorted(maps.Keys(p.queues)) {
		s.Queues = append(s.Queues, queueState(name, books, v))
	}
	for i := range v.kept {
		s.Reservations = append(s.Reservations, reservationState(&v.kept[i]))
	}
	return s
}

func (p *player) stateOf(c *cast, v *view) scenario.Set {
	set := scenario.Set{Kind: c.kind, Name: c.String()}
	counts := make([]map[string]int, len(c.packing))
	for i := range counts {
		counts[i] = make(map[string]int)
	}
	for _, m := range c.members {
		pod := v.pods[c.namespace+"/"+m.name]
		if pod == nil {
			continue
		}
		set.Size++
		switch {
		case ended(pod):
			set.Ended++
		case pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil:
			set.Bound++
			for i, label := range c.packing {
				counts[i][p.nodes[pod.Spec.NodeName].Labels[label]]++
			}
		case pod.Spec.NodeName == "":
			if why := waitsFor(pod); why != "" {
				set.Reasons = append(set.Reasons, why)
			}
		}
	}
	for i, label := range c.packing {
		d := scenario.Domains{Label: label}
		for _, n := range counts[i] {
			d.Counts = append(d.Counts, n)
		}
		set.Domains = append(set.Domains, d)
	}
	if why := gangReason(v.groups[c.String()]); why != "" {
		set.Reasons = nil // it speaks for all
		if set.Bound+set.Ended < set.Size {
			set.Reasons = []string{why}
		}
	}
	return set
}

// waitsFor is why a pod says it waits.
func waitsFor(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	return ""
}

// gangReason is why a PodGroup, nil for none, says that it was never whole.
func gangReason(g *schedulingv1beta1.PodGroup) string {
	if g == nil {
		return ""
	}
	c := apimeta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// books is a ledger of what the API server has: it adds up what queues hold, and knows their guarantees.
func (p *player) books(v *view) *cluster.Store {
	store := cluster.NewStore()
	for _, n := range p.spaces {
		store.Apply(facts.NamespaceUpserted{Namespace: n})
	}
	for _, q := range p.queues {
		store.Apply(facts.QueueUpserted{Queue: q})
	}
	parser := parse.NewParser("", nil)
	for _, node := range p.nodes { // all that it has, because a queue is charged no more for a pod
		store.Apply(facts.NodeUpserted{Node: parser.Node(node)})
	}
	for _, c := range p.sets {
		for _, m := range c.members {
			if pod := v.pods[c.namespace+"/"+m.name]; runs(pod) {
				store.Apply(facts.PodUpserted{Pod: facts.Pod{
					UID: facts.UID(pod.UID), Namespace: c.namespace, Name: m.name, Node: pod.Spec.NodeName, Requirements: c.template.Requirements(),
				}})
			}
		}
	}
	for i := range v.kept {
		store.Apply(facts.ReservationUpserted{Reservation: p.keeps(&v.kept[i])})
	}
	return store
}

// keeps is what a Reservation keeps, by its status.
func (p *player) keeps(r *v1alpha1.Reservation) *facts.Reservation {
	f := &facts.Reservation{UID: facts.UID(r.UID), Namespace: r.Namespace, Name: r.Name, Count: int(r.Spec.Count)}
	if step := p.kept[r.Namespace+"/"+r.Name]; step != nil {
		f.Template = facts.Pod{Requirements: step.Pod.Requirements(), Priority: step.Pod.Priority}
	}
	for i := range r.Status.Places {
		if place := &r.Status.Places[i]; place.State == facts.PlaceReserved.String() {
			f.Places = append(f.Places, facts.Place{Index: int(place.Index), State: facts.PlaceReserved, Node: place.Node})
		}
	}
	return f
}

// reservationState is how the places of a Reservation stand, by its status.
func reservationState(r *v1alpha1.Reservation) scenario.Reservation {
	state := scenario.Reservation{Name: r.Namespace + "/" + r.Name, Places: int(r.Spec.Count)}
	for i := range r.Status.Places {
		switch place := &r.Status.Places[i]; place.State {
		case facts.PlaceReserved.String():
			state.Reserved++
		case facts.PlaceConsumed.String():
			state.Consumed++
		case facts.PlaceLost.String():
			state.Lost++
			state.Reasons = append(state.Reasons, place.Reason)
		}
	}
	return state
}

// queueState is what a queue holds by the books, and what its status says is wrong with it.
func queueState(name string, books *cluster.Store, v *view) scenario.Queue {
	q := scenario.Queue{Name: name, Used: make(map[string]int64), Borrowed: make(map[string]int64)}
	known := books.Quota().Queue(name)
	for i := range books.Kinds() {
		kind := resource.Kind(i)
		r := books.KindName(kind)
		if known == nil || r == resource.NamePods {
			continue
		}
		q.Used[r] = known.Used(kind)
		if len(known.Facts.Guaranteed) > 0 {
			q.Borrowed[r] = max(known.Used(kind)-known.Guaranteed(kind), 0)
		}
	}
	if object := v.queues[name]; object != nil {
		c := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
		if c != nil && c.Reason != v1alpha1.ReasonReady {
			q.Problem = c.Reason
		}
	}
	return q
}
