package kube

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster"
)

// Namespace parses a namespace.
func (p *Parser) Namespace(n *corev1.Namespace) cluster.Namespace {
	return cluster.Namespace{Name: p.strings.get(n.Name), Labels: p.labels(n.Labels)}
}

// Service parses a service; nil when it selects nothing.
func (p *Parser) Service(s *corev1.Service) *cluster.Workload {
	return p.workload(cluster.Service, s, p.equalities(s.Spec.Selector))
}

// ReplicationController parses a replication controller; nil when it selects nothing.
func (p *Parser) ReplicationController(c *corev1.ReplicationController) *cluster.Workload {
	return p.workload(cluster.ReplicationController, c, p.equalities(c.Spec.Selector))
}

// ReplicaSet parses a replica set; nil when it selects nothing that default spreading could use.
func (p *Parser) ReplicaSet(s *appsv1.ReplicaSet) *cluster.Workload {
	return p.workload(cluster.ReplicaSet, s, p.expressions("replicaset", s, s.Spec.Selector))
}

// StatefulSet parses a stateful set; nil when it selects nothing that default spreading could use.
func (p *Parser) StatefulSet(s *appsv1.StatefulSet) *cluster.Workload {
	return p.workload(cluster.StatefulSet, s, p.expressions("statefulset", s, s.Spec.Selector))
}

// workload is nil without an expression: whether the selector is absent, empty or unreadable, upstream then adds nothing to the selector
// that it makes of a pod's workloads.
func (p *Parser) workload(kind cluster.WorkloadKind, object metav1.Object, expressions []cluster.Requirement) *cluster.Workload {
	if len(expressions) == 0 {
		return nil
	}
	return &cluster.Workload{
		Kind: kind, Namespace: p.strings.get(object.GetNamespace()), Name: p.strings.get(object.GetName()),
		Pods: cluster.LabelSelector{Expressions: expressions},
	}
}

func (p *Parser) expressions(kind string, object metav1.Object, selector *metav1.LabelSelector) []cluster.Requirement {
	parsed, err := p.selector(selector)
	if err != nil {
		p.warner.warn(kind+" "+object.GetNamespace()+"/"+object.GetName(), "a selector is malformed and ignored, as kube-scheduler ignores it", "err", err)
	}
	return parsed.Expressions
}

// Budget parses a disruption budget; nil when it selects nothing. An empty selector does so too: kube-scheduler reads it like none.
func (p *Parser) Budget(b *policyv1.PodDisruptionBudget) *cluster.Budget {
	expressions := p.expressions("poddisruptionbudget", b, b.Spec.Selector)
	if len(expressions) == 0 {
		return nil
	}
	return &cluster.Budget{
		Namespace: p.strings.get(b.Namespace), Name: p.strings.get(b.Name),
		Pods:      cluster.LabelSelector{Expressions: expressions},
		Allowed:   b.Status.DisruptionsAllowed,
		Disrupted: slices.Sorted(maps.Keys(b.Status.DisruptedPods)),
	}
}
