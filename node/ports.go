package node

import (
	"context"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

// Ports are the ways out of the agent. Those that are nil are not there: no API server can be reached, or no kubelet.
type Ports struct {
	// Report writes what the node says of itself.
	Report func(ctx context.Context, r *spec.NodeReport) error
	// RefusedEvictions are the UIDs of the pods of the last report whose eviction a disruption budget refuses, as far as hilbertd has told.
	RefusedEvictions func(ctx context.Context) ([]string, error)
	// Exclusive are the CPUs that the kubelet gave to pods for themselves. It is asked in mode kubelet alone.
	Exclusive func(ctx context.Context) (map[PodKey]topology.CPUSet, error)
	// KubeletDevices are the pods that the kubelet lists, with the devices that it gave them for device plugins.
	KubeletDevices func(ctx context.Context) ([]kubelet.ListedPod, error)
	// Checkpoint keeps what must outlast the process.
	Checkpoint store.Store
	// LawState keeps what the laws have learned; it may be lost.
	LawState store.Store
	// Configuration keeps the last good configuration that the node was told.
	Configuration store.Store
	// Uplinks keeps the uplinks that the Node's annotation named last.
	Uplinks store.Store
	// Devices keeps which number belongs to which GPU and network card.
	Devices store.Store
	// Resources keeps what pods hold of the resources that plugins bring.
	Resources store.Store
}

// PodKey names a pod as people do; a spec.PodRef says which one of that name.
type PodKey struct{ Namespace, Name string }
