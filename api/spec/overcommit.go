package spec

// LabelOvercommitCPU is the most percent by which the CPU requests of a namespace's pods may go beyond nodes' CPUs, 100 to 1000; the cluster's percent counts where it is less.
const LabelOvercommitCPU = "hilbert.dev/overcommit-cpu-percent"

// AnnotationRequestedCPU says what a pod's containers asked for before their CPU requests were lowered: "main=500m,side=100m". The policy hilbert-overcommit writes it.
const AnnotationRequestedCPU = "hilbert.dev/requested-cpu"

// The cluster's percent stands in the ConfigMap OvercommitConfigMap beside hilbertd, under OvercommitCPUKey.
const (
	OvercommitConfigMap = "hilbert-overcommit"
	OvercommitCPUKey    = "cpuPercent"
)
