package node

import (
	"context"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

// Sandbox is a pod as the container runtime knows it. A pod has a new one when the old one has died.
type Sandbox struct {
	ID                   string
	UID, Namespace, Name string // of the pod
	Labels, Annotations  map[string]string
	// Address is the pod's IP; empty: it has none of its own, or none yet.
	Address string
	// Cgroup is the pod's directory below the root of the hierarchy; empty with the reason in Trouble.
	Cgroup, Trouble string
	Amounts         Amounts
	BestEffort      bool // the Kubernetes QoS class
	// Processless: the sandbox has no process, or none yet. Runtimes tell of dead sandboxes for as long as they keep them.
	Processless bool
	// within is the set of NUMA nodes that its CPUs must come from, as pluginController has found out; 0: any.
	within uint8
}

// Amounts are what a pod asks for.
type Amounts struct {
	MilliCPU    int64 // requested
	MemoryLimit int64 // bytes; 0: none
}

// Container is a container of a sandbox.
type Container struct {
	ID, Sandbox, Name string
	Cgroup, Trouble   string // as those of a Sandbox
	// CPUs and Mems are what the runtime was last told; empty: nothing.
	CPUs, Mems topology.CPUSet
	// OOMScoreAdj is what it is made with, nil where the runtime does not say; MemoryLimit is in bytes, 0: none.
	OOMScoreAdj *int
	MemoryLimit int64
	Exists      bool // it is created, so that it can be updated
	Stopped     bool
	// Env is its environment, "NAME=value", that of its image included, and Mounts the places of its mounts.
	Env, Mounts []string
	// CDI are the full names of the CDI devices that it has, and User the user that it runs as; empty and nil where the runtime does not say.
	CDI  []string
	User *uint32
	// UserNamespace: it has users of its own, so that User is none of the host's.
	UserNamespace bool
	// Devices are the paths of its device files, and MilliCPU what it requests now; none and 0 where the runtime does not say.
	Devices  []string
	MilliCPU int64
	// Mark is the agent's annotation; empty: the agent did not adjust the container, or the runtime does not say.
	Mark string
}

// Adjustment is what a container gets before its first instruction. What is empty or nil stays as it is.
type Adjustment struct {
	CPUs, Mems  topology.CPUSet
	OOMScoreAdj *int
	Devices     cdi.Edits
	// Resources is what plugins contribute.
	Resources plugin.Contribution
	Mark      Mark
}

// Update is what a container gets later.
type Update struct {
	Container  string
	CPUs, Mems topology.CPUSet
}

// Updater changes containers through the runtime, which so learns of it. It returns the IDs of those that could not be changed. The runtime
// may hold the answer back while it waits for the agent, so the loop never calls it.
type Updater interface {
	Update([]Update) (failed []string, err error)
}

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
