package parse

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// workloadParser reads what selects pods (services, workloads, disruption budgets), and the namespaces that pods are in. What selects no pod reads as nil, so that nobody
// has to ask twice.
type workloadParser struct{ *vocabulary }

// Namespace parses a namespace.
func (p *workloadParser) Namespace(n *corev1.Namespace) facts.Namespace {
	return facts.Namespace{Name: p.strings.get(n.Name), Labels: p.labels.of(n.Labels)}
}

// Service parses a service; nil when it selects nothing.
func (p *workloadParser) Service(s *corev1.Service) *facts.Workload {
	return p.workload(facts.Service, s, p.constraints.equalities(s.Spec.Selector))
}

// ReplicationController parses a replication controller; nil when it selects nothing.
func (p *workloadParser) ReplicationController(c *corev1.ReplicationController) *facts.Workload {
	return p.workload(facts.ReplicationController, c, p.constraints.equalities(c.Spec.Selector))
}

// ReplicaSet parses a replica set; nil when it selects nothing that default spreading could use.
func (p *workloadParser) ReplicaSet(s *appsv1.ReplicaSet) *facts.Workload {
	return p.workload(facts.ReplicaSet, s, p.expressions("replicaset", s, s.Spec.Selector))
}

// StatefulSet parses a stateful set; nil when it selects nothing that default spreading could use.
func (p *workloadParser) StatefulSet(s *appsv1.StatefulSet) *facts.Workload {
	return p.workload(facts.StatefulSet, s, p.expressions("statefulset", s, s.Spec.Selector))
}

// workload is nil without an expression: whether the selector is absent, empty or unreadable, upstream then adds nothing to the selector
// that it makes of a pod's workloads.
func (p *workloadParser) workload(kind facts.WorkloadKind, object metav1.Object, expressions []facts.Requirement) *facts.Workload {
	if len(expressions) == 0 {
		return nil
	}
	return &facts.Workload{
		Kind: kind, Namespace: p.strings.get(object.GetNamespace()), Name: p.strings.get(object.GetName()),
		Pods: facts.LabelSelector{Expressions: expressions},
	}
}

func (p *workloadParser) expressions(kind string, object metav1.Object, selector *metav1.LabelSelector) []facts.Requirement {
	parsed, err := p.constraints.selector(selector)
	if err != nil {
		p.warner.Warn(kind+" "+object.GetNamespace()+"/"+object.GetName(), "a selector is malformed and ignored, as kube-scheduler ignores it", "err", err)
	}
	return parsed.Expressions
}

// Budget parses a disruption budget; nil when it selects nothing. An empty selector does so too: kube-scheduler reads it like none.
func (p *workloadParser) Budget(b *policyv1.PodDisruptionBudget) *facts.Budget {
	expressions := p.expressions("poddisruptionbudget", b, b.Spec.Selector)
	if len(expressions) == 0 {
		return nil
	}
	return &facts.Budget{
		Namespace: p.strings.get(b.Namespace), Name: p.strings.get(b.Name),
		Pods:      facts.LabelSelector{Expressions: expressions},
		Allowed:   b.Status.DisruptionsAllowed,
		Disrupted: slices.Sorted(maps.Keys(b.Status.DisruptedPods)),
	}
}
