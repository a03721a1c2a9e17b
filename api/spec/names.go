// Package spec is the API as the core sees it: the names of labels, annotations, resources and conditions, and the configuration as
// plain structs with one defaults function and one validation function.
//
// Invariants: it imports only the standard library, so that every package may depend on it; a zero Configuration passed through
// SetDefaults is valid.
//
// It is not the CRD types (those embed these structs under api/<group>/<version>), nor does it read files or environment.
package spec

// Names by which Hilbert is known to the API server.
const (
	// DefaultSchedulerName is the spec.schedulerName of the pods that Hilbert places.
	DefaultSchedulerName = "hilbert"
	// ConfigurationAPIVersion and ConfigurationKind head a configuration file.
	ConfigurationAPIVersion = "config.hilbert.dev/v1alpha1"
	ConfigurationKind       = "HilbertConfiguration"
	// SnapshotAPIVersion and SnapshotKind head a snapshot file.
	SnapshotAPIVersion = "snapshot.hilbert.dev/v1alpha1"
	SnapshotKind       = "HilbertSnapshot"
)

// Resource names that mean more than a count.
const (
	// ResourceGPUMilli is a request for a part of one GPU in thousandths (1 to 999), or for whole ones (a multiple of 1000).
	ResourceGPUMilli = "hilbert.dev/gpu-milli"
	// ResourceNvidiaGPU is a request for whole GPUs.
	ResourceNvidiaGPU = "nvidia.com/gpu"
)

// Labels and annotations.
const (
	// LabelGPUModel is a node's GPU model; pods choose models by node affinity on it.
	LabelGPUModel = "hilbert.dev/gpu-model"
	// AnnotationGPUs is written by the Binding: the indices of the GPUs that the pod was given, ascending, comma-separated: "0,3".
	AnnotationGPUs = "hilbert.dev/gpus"
)

// Reasons of the PodScheduled=False condition. They are bounded and stable: people alert on them.
const (
	// ReasonUnschedulable: no node fits now; the message counts why.
	ReasonUnschedulable = "Unschedulable"
	// ReasonUnsupportedConstraint: the pod asks for something that Hilbert cannot honour yet, so it is not placed at all.
	ReasonUnsupportedConstraint = "UnsupportedConstraint"
	// ReasonImpossibleRequest: the request contradicts itself; no node can ever fit it.
	ReasonImpossibleRequest = "ImpossibleRequest"
	// ReasonBindingFailed: the API server refused the Binding; it is tried again after a backoff.
	ReasonBindingFailed = "BindingFailed"
)
