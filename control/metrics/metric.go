package metrics

// Metric is what is measured of a pod.
type Metric uint8

// The metrics. Values are integers, so that sums do not depend on their order.
const (
	// CPUUse is in millionths of a core.
	CPUUse Metric = iota
	// RunDelay is how long threads that could run waited for a CPU: microseconds a second, over all threads.
	RunDelay
	// CPUPressure, MemoryPressure and IOPressure are the share of time in which some task waited, in millionths.
	CPUPressure
	MemoryPressure
	IOPressure
	// Memory is the working set in bytes: what is used, without the page cache that is dropped first.
	Memory
	// Throttled is the share of periods in which a limit of CPU throttled it, in millionths.
	Throttled
	metricCount
)

// String is its name in reports.
func (m Metric) String() string {
	return [metricCount]string{"cpuUse", "runDelay", "cpuPressure", "memoryPressure", "ioPressure", "memory", "throttled"}[m]
}

// Millionths reports whether the metric's values are millionths of something; else they are whole, such as bytes.
func (m Metric) Millionths() bool { return m != Memory }

// Micro is how many millionths one is.
const Micro = 1_000_000

// Statistic is what one number is made of the pods of a workload.
type Statistic uint8

// The statistics.
const (
	// Sum is of the pods' means. It counts for a pod that is not known what the others have on average.
	Sum Statistic = iota
	// Mean is of the pods' means.
	Mean
	// P95 is what 95 percent of all readings are at most.
	P95
	// Highest is of all readings.
	Highest
)

// Name is a metric under the name by which it is asked for.
type Name struct {
	Name string
	// Of pods, the value is the mean of the last readings, or the highest of them.
	Metric Metric
	Peak   bool
	// Statistic is of workloads.
	Statistic Statistic
	// PerPod: it is answered for single pods.
	PerPod bool
	// OfContainers: it is answered for single containers of pods, and for nothing else. Metric means nothing then.
	OfContainers bool
	// Kind says more where it is not Live.
	Kind Kind
	Help string
}

// Kind is where a value comes from.
type Kind uint8

// The kinds.
const (
	// Live values are measured.
	Live Kind = iota
	// Forecast is the greatest of the live value and a trusted forecast.
	Forecast
	// Planned is the highest planned peak of now.
	Planned
)

// ContainerMemoryPeak is the name of the metric of containers.
const ContainerMemoryPeak = "hilbert_container_memory_peak"

// Names are all that can be asked for.
var Names = []Name{
	{Name: "hilbert_cpu_use", Metric: CPUUse, Statistic: Sum, PerPod: true, Help: "Cores that are used; of a workload, by all its pods."},
	{Name: "hilbert_run_delay", Metric: RunDelay, Statistic: Mean, PerPod: true, Help: "Seconds that threads which could run waited for a CPU, per second; of a workload, the mean of its pods."},
	{Name: "hilbert_run_delay_p95", Metric: RunDelay, Statistic: P95, Help: "The run delay that 95 percent of all readings of a workload's pods are at most."},
	{Name: "hilbert_cpu_pressure", Metric: CPUPressure, Statistic: Mean, PerPod: true, Help: "Share of time in which some task waited for a CPU, 0 to 1; of a workload, the mean of its pods."},
	{Name: "hilbert_memory_pressure", Metric: MemoryPressure, Statistic: Mean, PerPod: true, Help: "Share of time in which some task waited for memory, 0 to 1; of a workload, the mean of its pods."},
	{Name: "hilbert_io_pressure", Metric: IOPressure, Statistic: Mean, PerPod: true, Help: "Share of time in which some task waited for a disk, 0 to 1; of a workload, the mean of its pods."},
	{Name: "hilbert_memory_peak", Metric: Memory, Peak: true, Statistic: Highest, PerPod: true, Help: "Highest working set of the last readings, in bytes; of a workload, of its largest pod."},
	{Name: ContainerMemoryPeak, Metric: Memory, Peak: true, PerPod: true, OfContainers: true, Help: "Highest memory of a container in the last minute at least, without the page cache that is dropped first, in bytes."},
	{Name: "hilbert_cpu_throttled", Metric: Throttled, Statistic: Mean, PerPod: true, Help: "Share of periods in which a limit of CPU throttled the pod or one of its containers, 0 to 1; of a workload, the mean of its pods."},
	{Name: "hilbert_cpu_use_forecast", Metric: CPUUse, Statistic: Sum, Kind: Forecast, Help: "Cores that all pods of a workload use, or will use within the lead by a forecast that is trusted, whichever is more."},
	{Name: "hilbert_planned_load", Metric: CPUUse, Kind: Planned, Help: "The load of the highest planned peak that has begun or begins within the lead; 0 between peaks."},
}

// Find is the metric of a name.
func Find(name string) (Name, bool) {
	for i := range Names {
		if Names[i].Name == name {
			return Names[i], true
		}
	}
	return Name{}, false
}
