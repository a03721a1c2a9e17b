package cluster

import (
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Quota is the tree of queues; callers read it and follow its changes, and ease queues.
func (s *Store) Quota() *quota.Tree { return s.quota }

// Queue is the queue that the pod is charged to, or will be.
func (p *Pod) Queue() *quota.Queue { return p.tenant.Queue() }

// Tenant is the account that the pod is charged to, or will be.
func (p *Pod) Tenant() *quota.Tenant { return p.tenant }

// spend charges the pod to its tenant and all queues above, or with a negative sign takes it away.
func (s *Store) spend(pod *Pod, sign int64) {
	if sign > 0 {
		s.quota.Charge(pod.tenant, pod.Class.Charge)
		return
	}
	s.quota.Discharge(pod.tenant, pod.Class.Charge, !s.inJudgement)
}

// tell says of the pods of some namespaces which wait that they wait for something else now.
func (s *Store) tell(tenants ...*quota.Tenant) {
	s.growKinds() // a queue may have named a resource first
	for _, t := range tenants {
		for _, id := range s.selection.inNamespace[t.Namespace] {
			for _, pod := range id.pods {
				if pod.wants() {
					s.emit(pod)
				}
			}
		}
	}
}

// provide adds a slot's allocatable, sign times, to the cluster's capacity.
func (s *Store) provide(slot Slot, sign int64) {
	for kind := range s.allocatable {
		s.quota.Provide(resource.Kind(kind), sign*s.allocatable[kind][slot])
	}
}

// provideGPUs adds a slot's GPUs, sign times, to the capacity; a vacant one has none.
func (s *Store) provideGPUs(slot Slot, sign int64) {
	if s.nodes[slot] != nil {
		s.quota.Provide(s.quota.GPUKind(), sign*int64(s.Shape(slot).GPUs)*topology.FullGPU)
	}
}
