package spec

import (
	"fmt"
	"strings"
)

// GPUs and network cards of a pod. Except for nvidia.com/gpu, only the CustomNodeResource needs to offer them: a node's status need not, and a
// kubelet ignores resources that it does not know. The amounts of a pod's containers are added up.
const (
	// ResourceGPUCore is compute in percent: 1 to 99 of one GPU, or whole ones (a multiple of 100).
	ResourceGPUCore = "hilbert.dev/gpu-core"
	// ResourceGPUMilli is the same in thousandths: 1 to 999 of one GPU, or whole ones (a multiple of 1000).
	ResourceGPUMilli = "hilbert.dev/gpu-milli"
	// ResourceNvidiaGPU is whole GPUs.
	ResourceNvidiaGPU = "nvidia.com/gpu"
	// ResourceGPUMemory is MiB of each of these GPUs: of a part, what it may use; of whole ones, what each must have. Left out, a part has its
	// share of the GPU's.
	ResourceGPUMemory = "hilbert.dev/gpu-memory"
	// ResourceRDMA is how many network cards with RDMA the pod uses.
	ResourceRDMA = "hilbert.dev/rdma"
	// ResourceNICBandwidth is Mbit/s of each card that the pod uses; alone it asks for one card.
	ResourceNICBandwidth = "hilbert.dev/nic-bandwidth"
	// ResourceNICFunctions is how many virtual functions the pod gets, each of another card.
	ResourceNICFunctions = "hilbert.dev/nic-functions"
)

// LabelGPUModel stands on a node and names the model of its GPUs. Pods select models by node affinity.
const LabelGPUModel = "hilbert.dev/gpu-model"

// How a pod's devices are allocated.
const (
	// AnnotationIsolation is the least isolation that a pod with a part of a GPU accepts: IsolationAccounting, IsolationSoft or IsolationHard.
	// Without it, any. Only hard (MIG) and whole GPUs protect from programs that mean harm: soft slices (MPS) are not defended against each other.
	AnnotationIsolation = "hilbert.dev/gpu-isolation"
	// AnnotationNear is how close the pod's GPUs, network cards and exclusive CPUs should be to each other: NearSwitch, NearNUMA or NearSocket. With
	// ",required" behind it, as in "numa,required", they must be.
	AnnotationNear = "hilbert.dev/near"
	// AnnotationNUMAPolicy says the same in the words of the kubelet's topology manager: NUMAPolicyNone, NUMAPolicyBestEffort, NUMAPolicyRestricted
	// or NUMAPolicySingle.
	AnnotationNUMAPolicy = "hilbert.dev/numa-policy"
)

// The devices that a pod was given. Hilbert writes these with the Binding; nothing else may.
const (
	// AnnotationGPUs is which GPUs the pod was given: "0,3" are two whole GPUs; "2:250/10240Mi" is a quarter of GPU 2 with 10 GiB of memory,
	// "2:250/10240Mi/soft" the same with soft isolation; "2:mig-3" is a MIG instance.
	AnnotationGPUs = "hilbert.dev/gpus"
	// AnnotationNICs is which network cards the pod was given, and how much of each: "1:25000" is 25,000 Mbit/s, "1:vf" a virtual function,
	// "1:25000/vf" both.
	AnnotationNICs = "hilbert.dev/nics"
)

// The values of AnnotationIsolation, the weakest first. A GPU lists those that it gives.
const (
	IsolationAccounting = "accounting" // the ledger counts, nothing enforces
	IsolationSoft       = "soft"       // the driver limits threads and memory of each process that cooperates
	IsolationHard       = "hard"       // the hardware divides the GPU
)

// The values of AnnotationNear, the closest first.
const (
	NearSwitch = "switch" // below one PCIe switch
	NearNUMA   = "numa"   // at one NUMA node
	NearSocket = "socket"

	nearRequired = "required" // behind a comma
)

// The values of AnnotationNUMAPolicy.
const (
	NUMAPolicyNone       = "none"
	NUMAPolicyBestEffort = "best-effort"
	NUMAPolicyRestricted = "restricted"
	NUMAPolicySingle     = "single-numa-node"
)

// DeviceWords are the annotations of a pod about its devices, parsed.
type DeviceWords struct {
	Isolation  string // "" or one of the Isolation constants
	Near       string // "" or one of the Near constants
	Required   bool   // Near must be had
	NUMAPolicy string // "" or one of the NUMAPolicy constants; then Near is empty
}

// DeviceWordsOf parses a pod's annotations. On an error, which names the key and its possible values, the result is empty.
func DeviceWordsOf(annotations map[string]string) (DeviceWords, error) {
	w := DeviceWords{Isolation: annotations[AnnotationIsolation], NUMAPolicy: annotations[AnnotationNUMAPolicy]}
	switch w.Isolation {
	case "", IsolationAccounting, IsolationSoft, IsolationHard:
	default:
		return DeviceWords{}, fmt.Errorf("%s: %q is no isolation; want %s, %s or %s",
			AnnotationIsolation, w.Isolation, IsolationAccounting, IsolationSoft, IsolationHard)
	}
	near := annotations[AnnotationNear]
	level, must, comma := strings.Cut(near, ",")
	switch {
	case near == "":
	case level != NearSwitch && level != NearNUMA && level != NearSocket, comma && must != nearRequired:
		return DeviceWords{}, fmt.Errorf("%s: %q: want %s, %s or %s, and %q behind it if it must be so",
			AnnotationNear, near, NearSwitch, NearNUMA, NearSocket, ","+nearRequired)
	default:
		w.Near, w.Required = level, comma
	}
	switch w.NUMAPolicy {
	case "":
	case NUMAPolicyNone, NUMAPolicyBestEffort, NUMAPolicyRestricted, NUMAPolicySingle:
		if near != "" {
			return DeviceWords{}, fmt.Errorf("%s: %s says already how close things are; leave one of them out", AnnotationNUMAPolicy, AnnotationNear)
		}
	default:
		return DeviceWords{}, fmt.Errorf("%s: %q: want %s, %s, %s or %s",
			AnnotationNUMAPolicy, w.NUMAPolicy, NUMAPolicyNone, NUMAPolicyBestEffort, NUMAPolicyRestricted, NUMAPolicySingle)
	}
	return w, nil
}

// The values of Devices.Owner: which party gives a node's GPUs out.
const (
	OwnerHilbert = "hilbert" // the agent does; all that is reported may be promised
	OwnerKubelet = "kubelet" // a device plugin does: whole GPUs, by number
	OwnerNone    = "none"    // no party, or more than one: none is promised
)

// +kubebuilder:object:generate=true

// Devices are a node's GPUs and network cards, and which pod has what of them. Exactly one party gives a node's GPUs out (Owner), because two would
// give the same GPU to two pods.
type Devices struct {
	// Owner is one of the constants above, and Reason why it is that one.
	Owner  string `json:"owner"`
	Reason string `json:"reason,omitempty"`
	GPUs   []GPU  `json:"gpus,omitempty"`
	// SeveralNamespaces: soft slices of one GPU may be of pods of different namespaces. False: the first pod's namespace has them all.
	SeveralNamespaces bool `json:"severalNamespaces,omitempty"`

	NICs []NIC `json:"nics,omitempty"`
	// Allocations are the pods that hold GPUs or cards. They confirm the promises of the Bindings.
	Allocations []DeviceAllocation `json:"allocations,omitempty"`
	// Kubelet is what else the agent knows of the devices that the kubelet gave to pods.
	Kubelet *KubeletDevices `json:"kubelet,omitempty"`
}

// +kubebuilder:object:generate=true

// KubeletDevices is what Allocations cannot express of the devices that the kubelet gave to pods.
type KubeletDevices struct {
	// Unread is why the agent cannot read which devices the kubelet gave, and since when its knowledge is old; empty: it can.
	Unread string `json:"unread,omitempty"`
	// Others are devices that are neither a whole GPU nor one instance, or whose GPU is unknown. More is how many are not listed.
	Others []KubeletDevice `json:"others,omitempty"`
	More   int             `json:"more,omitempty"`
}

// +kubebuilder:object:generate=true

// KubeletDevice is a device that the kubelet gave to a pod.
type KubeletDevice struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Resource is what the device plugin offers, and ID its own name for the device.
	Resource string `json:"resource"`
	ID       string `json:"id"`
	// GPU is the index of its GPU; nil: unknown.
	GPU *int `json:"gpu,omitempty"`
}

// +kubebuilder:object:generate=true

// DevicePlace is where a device is attached: the numbers of its PCIe switch (dense within the node), its NUMA node and its socket. nil: the
// firmware does not report it.
type DevicePlace struct {
	Switch *int `json:"switch,omitempty"`
	NUMA   *int `json:"numa,omitempty"`
	Socket *int `json:"socket,omitempty"`
}

// +kubebuilder:object:generate=true

// GPU is one GPU of a node.
type GPU struct {
	// Index is its number here and in promises. It belongs to the PCI address permanently.
	Index   int    `json:"index"`
	UUID    string `json:"uuid"`
	Address string `json:"address"` // PCI, "0000:3b:00.0"
	Model   string `json:"model"`
	// MemoryMiB is the memory that pods may get.
	MemoryMiB int64 `json:"memoryMiB"`
	// Multiprocessors is how many it has, and Grain the compute of one in thousandths; parts are rounded up to a multiple of it. 0: unknown.
	Multiprocessors int `json:"multiprocessors,omitempty"`
	Grain           int `json:"grain,omitempty"`
	// LeastPart is the compute of the least soft part, in thousandths: the driver limits no process to less. 0: one grain.
	LeastPart int `json:"leastPart,omitempty"`
	// Clients is the most pods that may share it without instances; 0: no parts are given.
	Clients int `json:"clients,omitempty"`
	// Isolation has the kinds of isolation with which it gives parts.
	Isolation []string `json:"isolation,omitempty"`
	// Instances are those that exist. The place in the list is the number in promises: "2:mig-0" is the first of GPU 2.
	Instances   []GPUInstance `json:"instances,omitempty"`
	DevicePlace `json:",inline"`
	// Links is how well it is connected to each GPU, by index; more is better. All of a node's GPUs have it, or none.
	Links []int `json:"links,omitempty"`
	// Closed is the reason why it gives nothing new. Empty: it is open.
	Closed string `json:"closed,omitempty"`
}

// +kubebuilder:object:generate=true

// GPUInstance is a part into which the hardware divides a GPU.
type GPUInstance struct {
	Name      string `json:"name"` // its profile, "1g.10gb"
	UUID      string `json:"uuid,omitempty"`
	Milli     int    `json:"milli"` // thousandths of the GPU's compute; 0: it gives nothing
	MemoryMiB int64  `json:"memoryMiB"`
	// Gone: it was destroyed, and keeps its number while a pod holds it or an instance with a higher number exists.
	Gone bool `json:"gone,omitempty"`
}

// +kubebuilder:object:generate=true

// NIC is one network card of a node.
type NIC struct {
	// Index is its number here and in promises. It belongs to the PCI address permanently.
	Index   int    `json:"index"`
	Address string `json:"address"`
	Name    string `json:"name"` // of its interface, or of its RDMA device
	// BandwidthMbit is the Mbit/s that pods may get.
	BandwidthMbit int64 `json:"bandwidthMbit"`
	// Functions is how many virtual functions pods may get.
	Functions   int  `json:"functions,omitempty"`
	RDMA        bool `json:"rdma,omitempty"`
	DevicePlace `json:",inline"`
	// Closed is the reason why it gives nothing new. Empty: it is open.
	Closed string `json:"closed,omitempty"`
}

// +kubebuilder:object:generate=true

// DeviceAllocation is what one pod holds of a node's devices.
type DeviceAllocation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// GPUs and NICs are spelled as in AnnotationGPUs and AnnotationNICs.
	GPUs string `json:"gpus,omitempty"`
	NICs string `json:"nics,omitempty"`
	// Isolation is that of the pod's part; empty for whole GPUs.
	Isolation string `json:"isolation,omitempty"`
	// Owner is which party gave the GPUs, if not the agent: OwnerKubelet.
	Owner string `json:"owner,omitempty"`
	// Moved: what was promised was not free, and the pod got this instead.
	Moved bool `json:"moved,omitempty"`
}
