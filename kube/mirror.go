package kube

import (
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

// mirror is what the reflector of a resource fills instead of a cache of objects O: what they were parsed to, which the ledger shares. An
// update that is parsed to the same goes no further.
type mirror[O metav1.Object, R any] struct {
	out      receiver
	resource string
	// parse answers false for an object that means nothing to placement; it is as if it did not exist.
	parse    func(O) (R, bool)
	equal    func(a, b R) bool
	upserted func(R) facts.Event
	removed  func(cache.ObjectName) facts.Event
	listed   func([]R) facts.Event
	known    map[cache.ObjectName]R
}

// parsedObject is an object of a list that is not complete yet.
type parsedObject[R any] struct {
	name  cache.ObjectName
	said  R
	means bool
}

func (m *mirror[O, R]) take(object O) parsedObject[R] {
	p := parsedObject[R]{name: cache.MetaObjectToName(object)}
	p.said, p.means = m.parse(object)
	return p
}

func (m *mirror[O, R]) stranger(object any) error {
	return fmt.Errorf("%s: the watch delivered a %T", m.resource, object)
}

// Transformer parses the objects of a streamed list as they arrive, so that the whole list is never in memory.
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
	return m.forget(cache.MetaObjectToName(o))
}

func (m *mirror[O, R]) forget(name cache.ObjectName) error {
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

func mirrorNodes(out receiver, p *parse.Parser) *mirror[*corev1.Node, *facts.Node] {
	return &mirror[*corev1.Node, *facts.Node]{
		out: out, resource: "nodes", known: make(map[cache.ObjectName]*facts.Node), equal: facts.SameNode,
		parse:    func(n *corev1.Node) (*facts.Node, bool) { return p.Node(n), true },
		upserted: func(n *facts.Node) facts.Event { return facts.NodeUpserted{Node: n} },
		removed:  func(n cache.ObjectName) facts.Event { return facts.NodeRemoved{Name: n.Name} },
		listed:   func(list []*facts.Node) facts.Event { return facts.NodesListed{Nodes: list} },
	}
}

func mirrorNamespaces(out receiver, p *parse.Parser) *mirror[*corev1.Namespace, facts.Namespace] {
	return &mirror[*corev1.Namespace, facts.Namespace]{
		out: out, resource: "namespaces", known: make(map[cache.ObjectName]facts.Namespace),
		parse:    func(n *corev1.Namespace) (facts.Namespace, bool) { return p.Namespace(n), true },
		equal:    func(a, b facts.Namespace) bool { return slices.Equal(a.Labels, b.Labels) },
		upserted: func(n facts.Namespace) facts.Event { return facts.NamespaceUpserted{Namespace: n} },
		removed:  func(n cache.ObjectName) facts.Event { return facts.NamespaceRemoved{Name: n.Name} },
		listed:   func(list []facts.Namespace) facts.Event { return facts.NamespacesListed{Namespaces: list} },
	}
}

// mirrorWorkloads mirrors a kind of objects that select pods. Only their selectors matter.
func mirrorWorkloads[O metav1.Object](
	out receiver, kind facts.WorkloadKind, resource string, read func(O) *facts.Workload,
) *mirror[O, *facts.Workload] {
	return &mirror[O, *facts.Workload]{
		out: out, resource: resource, known: make(map[cache.ObjectName]*facts.Workload),
		parse: func(object O) (*facts.Workload, bool) {
			w := read(object)
			return w, w != nil
		},
		equal:    func(a, b *facts.Workload) bool { return a.Pods.Equal(&b.Pods) },
		upserted: func(w *facts.Workload) facts.Event { return facts.WorkloadUpserted{Workload: w} },
		removed: func(n cache.ObjectName) facts.Event {
			return facts.WorkloadRemoved{Kind: kind, Namespace: n.Namespace, Name: n.Name}
		},
		listed: func(list []*facts.Workload) facts.Event {
			return facts.WorkloadsListed{Kind: kind, Workloads: list}
		},
	}
}

func mirrorServices(out receiver, p *parse.Parser) *mirror[*corev1.Service, *facts.Workload] {
	return mirrorWorkloads(out, facts.Service, "services", p.Service)
}

func mirrorReplicationControllers(out receiver, p *parse.Parser) *mirror[*corev1.ReplicationController, *facts.Workload] {
	return mirrorWorkloads(out, facts.ReplicationController, "replicationcontrollers", p.ReplicationController)
}

func mirrorReplicaSets(out receiver, p *parse.Parser) *mirror[*appsv1.ReplicaSet, *facts.Workload] {
	return mirrorWorkloads(out, facts.ReplicaSet, "replicasets", p.ReplicaSet)
}

func mirrorStatefulSets(out receiver, p *parse.Parser) *mirror[*appsv1.StatefulSet, *facts.Workload] {
	return mirrorWorkloads(out, facts.StatefulSet, "statefulsets", p.StatefulSet)
}

func mirrorBudgets(out receiver, p *parse.Parser) *mirror[*policyv1.PodDisruptionBudget, *facts.Budget] {
	return &mirror[*policyv1.PodDisruptionBudget, *facts.Budget]{
		out: out, resource: "poddisruptionbudgets", known: make(map[cache.ObjectName]*facts.Budget),
		parse: func(b *policyv1.PodDisruptionBudget) (*facts.Budget, bool) {
			budget := p.Budget(b)
			return budget, budget != nil
		},
		equal: func(a, b *facts.Budget) bool {
			return a.Allowed == b.Allowed && slices.Equal(a.Disrupted, b.Disrupted) && a.Pods.Equal(&b.Pods)
		},
		upserted: func(b *facts.Budget) facts.Event { return facts.BudgetUpserted{Budget: b} },
		removed: func(n cache.ObjectName) facts.Event {
			return facts.BudgetRemoved{Namespace: n.Namespace, Name: n.Name}
		},
		listed: func(list []*facts.Budget) facts.Event { return facts.BudgetsListed{Budgets: list} },
	}
}

// mirrorStorage mirrors a kind of objects that volumes depend on.
func mirrorStorage[O metav1.Object, R facts.StorageObject](out receiver, kind facts.StorageKind, read func(O) R) *mirror[O, R] {
	return mirrorKind(out, parse.StorageResources[kind], read, kindEvents[facts.StorageObject]{
		upserted: func(o facts.StorageObject) facts.Event { return facts.StorageUpserted{Object: o} },
		removed: func(n cache.ObjectName) facts.Event {
			return facts.StorageRemoved{Name: facts.StorageName{Kind: kind, Namespace: n.Namespace, Name: n.Name}}
		},
		listed: func(list []facts.StorageObject) facts.Event { return facts.StorageListed{Kind: kind, Objects: list} },
	})
}

// mirrorDRA mirrors a kind of objects of dynamic resource allocation.
func mirrorDRA[O metav1.Object, R facts.DRAObject](out receiver, kind facts.DRAKind, read func(O) R) *mirror[O, R] {
	return mirrorKind(out, parse.DRAResources[kind], read, kindEvents[facts.DRAObject]{
		upserted: func(o facts.DRAObject) facts.Event { return facts.DRAUpserted{Object: o} },
		removed: func(n cache.ObjectName) facts.Event {
			return facts.DRARemoved{Name: facts.DRAName{Kind: kind, Namespace: n.Namespace, Name: n.Name}}
		},
		listed: func(list []facts.DRAObject) facts.Event { return facts.DRAListed{Kind: kind, Objects: list} },
	})
}

// kindEvents are the events about one kind of objects, of those that share an interface T: storage, or dynamic resource allocation.
type kindEvents[T any] struct {
	upserted func(T) facts.Event
	removed  func(cache.ObjectName) facts.Event
	listed   func([]T) facts.Event
}

// mirrorKind mirrors a kind of objects that are parsed to an R, each of which is a T.
func mirrorKind[O metav1.Object, R, T any](out receiver, resource string, read func(O) R, events kindEvents[T]) *mirror[O, R] {
	object := func(r R) T { return any(r).(T) } //nolint:forcetypeassert // whoever calls this says so of R
	return &mirror[O, R]{
		out: out, resource: resource, known: make(map[cache.ObjectName]R),
		equal:    func(a, b R) bool { return reflect.DeepEqual(a, b) },
		parse:    func(o O) (R, bool) { return read(o), true },
		upserted: func(r R) facts.Event { return events.upserted(object(r)) },
		removed:  events.removed,
		listed: func(list []R) facts.Event {
			objects := make([]T, len(list))
			for i, r := range list {
				objects[i] = object(r)
			}
			return events.listed(objects)
		},
	}
}

// mirrorUnits mirrors the PodGroups of one API.
func mirrorUnits[O metav1.Object](out receiver, read func(O) *facts.Unit) *mirror[O, *facts.Unit] {
	return &mirror[O, *facts.Unit]{
		out: out, resource: "podgroups", known: make(map[cache.ObjectName]*facts.Unit),
		parse:    func(g O) (*facts.Unit, bool) { return read(g), true },
		equal:    func(a, b *facts.Unit) bool { return *a == *b },
		upserted: func(u *facts.Unit) facts.Event { return facts.UnitUpserted{Unit: u} },
		removed: func(n cache.ObjectName) facts.Event {
			return facts.UnitRemoved{Name: facts.UnitName{Namespace: n.Namespace, Name: n.Name}}
		},
		listed: func(list []*facts.Unit) facts.Event { return facts.UnitsListed{Units: list} },
	}
}

func mirrorQueues(out receiver, p *parse.Parser) *mirror[*v1alpha1.Queue, *facts.Queue] {
	return &mirror[*v1alpha1.Queue, *facts.Queue]{
		out: out, resource: "queues", known: make(map[cache.ObjectName]*facts.Queue), equal: parse.SameQueue,
		parse:    func(q *v1alpha1.Queue) (*facts.Queue, bool) { return p.Queue(q), true },
		upserted: func(q *facts.Queue) facts.Event { return facts.QueueUpserted{Queue: q} },
		removed:  func(n cache.ObjectName) facts.Event { return facts.QueueRemoved{Name: n.Name} },
		listed:   func(list []*facts.Queue) facts.Event { return facts.QueuesListed{Queues: list} },
	}
}
