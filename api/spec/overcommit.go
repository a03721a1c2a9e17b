package spec

// LabelOvercommitCPU is the most percent by which the CPU requests of a namespace's pods may go beyond nodes' CPUs, 100 to 1000; the cluster's percent counts where it is less.
const LabelOvercommitCPU = "hilbert.dev/overcommit-cpu-percent"

// AnnotationRequestedCPU says what a pod's containers asked for before their CPU requests were lowered, and by which percent: "main=500m,side=100m at 150%". The policy hilbert-overcommit
// writes it, and hilbert-requested-cpu lets no new pod name a greater percent than that policy lowers by.
const AnnotationRequestedCPU = "hilbert.dev/requested-cpu"

// ResourcePromisedCPU is what nodes take of CPU as pods asked for it before their requests were lowered, in thousandths of a CPU. Only the scheduler counts it, and no pod names it.
const ResourcePromisedCPU = "hilbert.dev/promised-millicpu"

// The cluster's percent stands in the ConfigMap OvercommitConfigMap beside hilbertd, under OvercommitCPUKey.
const (
	OvercommitConfigMap = "hilbert-overcommit"
	OvercommitCPUKey    = "cpuPercent"
)
