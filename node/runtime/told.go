package runtime

import (
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/plugin"
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
	// Within is the set of NUMA nodes that its CPUs must come from, as pluginController has found out; 0: any.
	Within uint8
}

// Ref names the pod.
func (s *Sandbox) Ref() spec.PodRef {
	return spec.PodRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
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

// TellsMarks reports whether a runtime says which annotations it gave to a container that it has made. We take it that CRI-O tells those of the kubelet alone.
// While a container is being made, each runtime shows a plugin what earlier ones added.
func TellsMarks(runtime string) bool { return !strings.HasPrefix(runtime, "cri-o") }
