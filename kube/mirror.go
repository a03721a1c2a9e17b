package kube

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster"
)

// objectName names an object of one resource.
type objectName struct{ namespace, name string }

func nameOf(o metav1.Object) objectName { return objectName{o.GetNamespace(), o.GetName()} }

// mirror is what the reflector of a resource fills instead of a cache of objects O: what they were parsed to, which the ledger shares. An
// update that is parsed to the same goes no further.
type mirror[O metav1.Object, R any] struct {
	out      receiver
	resource string
	// parse answers false for an object that means nothing to placement; it is as if it did not exist.
	parse    func(O) (R, bool)
	equal    func(a, b R) bool
	upserted func(R) cluster.Event
	removed  func(objectName) cluster.Event
	listed   func([]R) cluster.Event
	known    map[objectName]R
}

// parsedObject is an object of a list that is not complete yet.
type parsedObject[R any] struct {
	name  objectName
	said  R
	means bool
}

func (m *mirror[O, R]) take(object O) parsedObject[R] {
	p := parsedObject[R]{name: nameOf(object)}
	p.said, p.means = m.parse(object)
	return p
}

func (m *mirror[O, R]) stranger(object any) error {
	return fmt.Errorf("%s: the watch delivered a %T", m.resource, object)
}

// Transformer parses the objects of a streamed list as they arrive, so that the list never lies in memory whole.
func (m *mirror[O, R]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(O); ok {
			return m.take(o), nil
		}
		return object, nil
	}
}

// Add takes in an object that was created.
func (m *mirror[O, R]) Add(object any) error { return m.upsert(object) }

// Update takes in an object that was changed.
func (m *mirror[O, R]) Update(object any) error { return m.upsert(object) }

func (m *mirror[O, R]) upsert(object any) error {
	o, ok := object.(O)
	if !ok {
		return m.stranger(object)
	}
	p := m.take(o)
	if !p.means {
		return m.forget(p.name)
	}
	if old, ok := m.known[p.name]; ok && m.equal(old, p.said) {
		return nil
	}
	m.known[p.name] = p.said
	return m.out.send(m.upserted(p.said))
}

// Delete takes in an object that is gone.
func (m *mirror[O, R]) Delete(object any) error {
	o, ok := object.(O)
	if !ok {
		return m.stranger(object)
	}
	return m.forget(nameOf(o))
}

func (m *mirror[O, R]) forget(name objectName) error {
	if _, ok := m.known[name]; !ok {
		return nil
	}
	delete(m.known, name)
	return m.out.send(m.removed(name))
}

// Replace takes in a whole list.
func (m *mirror[O, R]) Replace(objects []any, _ string) error {
	list := make([]R, 0, len(objects))
	clear(m.known)
	for _, object := range objects {
		p, ok := object.(parsedObject[R])
		if o, raw := object.(O); raw {
			p, ok = m.take(o), true
		}
		if !ok {
			return m.stranger(object)
		}
		if p.means {
			m.known[p.name] = p.said
			list = append(list, p.said)
		}
	}
	return m.out.send(m.listed(list))
}

// Resync does nothing: no event is ever lost, so none is repeated.
func (m *mirror[O, R]) Resync() error { return nil }

func mirrorNodes(out receiver, p *Parser) *mirror[*corev1.Node, *cluster.Node] {
	return &mirror[*corev1.Node, *cluster.Node]{
		out: out, resource: "nodes", known: make(map[objectName]*cluster.Node), equal: cluster.SameNode,
		parse:    func(n *corev1.Node) (*cluster.Node, bool) { return p.Node(n), true },
		upserted: func(n *cluster.Node) cluster.Event { return cluster.NodeUpserted{Node: n} },
		removed:  func(n objectName) cluster.Event { return cluster.NodeRemoved{Name: n.name} },
		listed:   func(list []*cluster.Node) cluster.Event { return cluster.NodesListed{Nodes: list} },
	}
}

func mirrorNamespaces(out receiver, p *Parser) *mirror[*corev1.Namespace, cluster.Namespace] {
	return &mirror[*corev1.Namespace, cluster.Namespace]{
		out: out, resource: "namespaces", known: make(map[objectName]cluster.Namespace),
		parse:    func(n *corev1.Namespace) (cluster.Namespace, bool) { return p.Namespace(n), true },
		equal:    func(a, b cluster.Namespace) bool { return slices.Equal(a.Labels, b.Labels) },
		upserted: func(n cluster.Namespace) cluster.Event { return cluster.NamespaceUpserted{Namespace: n} },
		removed:  func(n objectName) cluster.Event { return cluster.NamespaceRemoved{Name: n.name} },
		listed:   func(list []cluster.Namespace) cluster.Event { return cluster.NamespacesListed{Namespaces: list} },
	}
}

// mirrorWorkloads mirrors a kind of objects that select pods, of which only the selector matters.
func mirrorWorkloads[O metav1.Object](
	out receiver, kind cluster.WorkloadKind, resource string, parse func(O) *cluster.Workload,
) *mirror[O, *cluster.Workload] {
	return &mirror[O, *cluster.Workload]{
		out: out, resource: resource, known: make(map[objectName]*cluster.Workload),
		parse: func(object O) (*cluster.Workload, bool) {
			w := parse(object)
			return w, w != nil
		},
		equal:    func(a, b *cluster.Workload) bool { return equalSelectors(&a.Pods, &b.Pods) },
		upserted: func(w *cluster.Workload) cluster.Event { return cluster.WorkloadUpserted{Workload: w} },
		removed: func(n objectName) cluster.Event {
			return cluster.WorkloadRemoved{Kind: kind, Namespace: n.namespace, Name: n.name}
		},
		listed: func(list []*cluster.Workload) cluster.Event {
			return cluster.WorkloadsListed{Kind: kind, Workloads: list}
		},
	}
}

func mirrorServices(out receiver, p *Parser) *mirror[*corev1.Service, *cluster.Workload] {
	return mirrorWorkloads(out, cluster.Service, "services", p.Service)
}

func mirrorReplicationControllers(out receiver, p *Parser) *mirror[*corev1.ReplicationController, *cluster.Workload] {
	return mirrorWorkloads(out, cluster.ReplicationController, "replicationcontrollers", p.ReplicationController)
}

func mirrorReplicaSets(out receiver, p *Parser) *mirror[*appsv1.ReplicaSet, *cluster.Workload] {
	return mirrorWorkloads(out, cluster.ReplicaSet, "replicasets", p.ReplicaSet)
}

func mirrorStatefulSets(out receiver, p *Parser) *mirror[*appsv1.StatefulSet, *cluster.Workload] {
	return mirrorWorkloads(out, cluster.StatefulSet, "statefulsets", p.StatefulSet)
}

func mirrorBudgets(out receiver, p *Parser) *mirror[*policyv1.PodDisruptionBudget, *cluster.Budget] {
	return &mirror[*policyv1.PodDisruptionBudget, *cluster.Budget]{
		out: out, resource: "poddisruptionbudgets", known: make(map[objectName]*cluster.Budget),
		parse: func(b *policyv1.PodDisruptionBudget) (*cluster.Budget, bool) {
			budget := p.Budget(b)
			return budget, budget != nil
		},
		equal: func(a, b *cluster.Budget) bool {
			return a.Allowed == b.Allowed && slices.Equal(a.Disrupted, b.Disrupted) && equalSelectors(&a.Pods, &b.Pods)
		},
		upserted: func(b *cluster.Budget) cluster.Event { return cluster.BudgetUpserted{Budget: b} },
		removed:  func(n objectName) cluster.Event { return cluster.BudgetRemoved{Namespace: n.namespace, Name: n.name} },
		listed:   func(list []*cluster.Budget) cluster.Event { return cluster.BudgetsListed{Budgets: list} },
	}
}

// mirrorUnits mirrors the PodGroups of one API.
func mirrorUnits[O metav1.Object](out receiver, parse func(O) *cluster.UnitFacts) *mirror[O, *cluster.UnitFacts] {
	return &mirror[O, *cluster.UnitFacts]{
		out: out, resource: "podgroups", known: make(map[objectName]*cluster.UnitFacts),
		parse:    func(g O) (*cluster.UnitFacts, bool) { return parse(g), true },
		equal:    func(a, b *cluster.UnitFacts) bool { return *a == *b },
		upserted: func(u *cluster.UnitFacts) cluster.Event { return cluster.UnitUpserted{Unit: u} },
		removed: func(n objectName) cluster.Event {
			return cluster.UnitRemoved{Name: cluster.UnitName{Namespace: n.namespace, Name: n.name}}
		},
		listed: func(list []*cluster.UnitFacts) cluster.Event { return cluster.UnitsListed{Units: list} },
	}
}

func mirrorQueues(out receiver, p *Parser) *mirror[*v1alpha1.Queue, *cluster.QueueFacts] {
	return &mirror[*v1alpha1.Queue, *cluster.QueueFacts]{
		out: out, resource: "queues", known: make(map[objectName]*cluster.QueueFacts), equal: sameQueue,
		parse:    func(q *v1alpha1.Queue) (*cluster.QueueFacts, bool) { return p.Queue(q), true },
		upserted: func(q *cluster.QueueFacts) cluster.Event { return cluster.QueueUpserted{Queue: q} },
		removed:  func(n objectName) cluster.Event { return cluster.QueueRemoved{Name: n.name} },
		listed:   func(list []*cluster.QueueFacts) cluster.Event { return cluster.QueuesListed{Queues: list} },
	}
}
