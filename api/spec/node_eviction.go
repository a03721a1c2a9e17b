package spec

// NodeEviction says when a node is short, and when reclaimed pods have to go for it. Its thresholds lie above the kubelet's, which may evict an online pod. Shares are
// from 0 to 1. A field that is not written has its default, and a 0 that is written means 0. docs/concepts/colocation.md explains each step.
type NodeEviction struct {
	// Memory is about what is available of the node's memory.
	Memory EvictionWatermarks `json:"memory"`
	// Pressure is about online pods that wait for memory.
	Pressure EvictionPressure `json:"pressure"`
	// NUMANode is about what is free of a NUMA node's memory.
	NUMANode EvictionWatermarks `json:"numaNode"`
	// Overuse is about reclaimed pods that hold more memory than their amount.
	Overuse EvictionOveruse `json:"overuse"`
	// Suppressed is about reclaimed pods that starve for CPU.
	Suppressed EvictionSuppressed `json:"suppressed"`
	// CPU is about online pods that wait for CPUs.
	CPU EvictionCPU `json:"cpu"`
	// Root is about the bytes of the kubelet's file system.
	Root EvictionWatermarks `json:"root"`
	// RootInodes is about the inodes of the kubelet's file system.
	RootInodes EvictionWatermarks `json:"rootInodes"`
	// Images is about the bytes of the images' file system.
	Images EvictionWatermarks `json:"images"`
	// ImageInodes is about the inodes of the images' file system.
	ImageInodes EvictionWatermarks `json:"imageInodes"`
	// Online is about online pods that hold more memory than they requested.
	Online EvictionOnline `json:"online" needs:"node.eviction.online.mode!=Off"`
	// Network is about the network interfaces that lead off the node.
	Network EvictionNetwork `json:"network" needs:"node.lending.network.enabled"`
	// Plugins is about what detectors of plugins find.
	Plugins EvictionPlugins `json:"plugins" needs:"node.plugins.enabled"`
	// WatermarkFactor times the kernel's watermark is the least hard threshold of memory; the least soft one is twice that.
	WatermarkFactor float64 `json:"watermarkFactor"`
	// ReleaseAfter is how long a reading must be beyond the threshold's clearance for a shortage to end.
	ReleaseAfter Duration `json:"releaseAfter"`
	// BlindFor is how long a shortage outlives its input.
	BlindFor Duration `json:"blindFor"`
	// MaxGap is the longest time between two readings in which something counts as having lasted.
	MaxGap Duration `json:"maxGap"`
	// Escalation is what is done about a shortage, and when.
	Escalation EvictionEscalation `json:"escalation"`
	// Close is how long a node that evicted takes no reclaimed pods.
	Close EvictionClosing `json:"close"`
}

// EvictionOnline is about online pods that hold more memory, page cache left out, than they requested. They are told of, and nothing is done to them: neither is one evicted for
// it. It ends at the request and half of Tolerance and Slack.
type EvictionOnline struct {
	// Mode is OnlineReport or OnlineOff.
	Mode string `json:"mode"`
	// Tolerance is how much more it may hold, as a part of its request.
	Tolerance float64 `json:"tolerance"`
	// Slack is how much more than that it may hold, in bytes.
	Slack float64 `json:"slack"`
	// For is how long it must have held more.
	For Duration `json:"for"`
}

// The values of EvictionOnline.Mode.
const (
	// OnlineReport: an Event on each such pod, the condition OnlineMemoryOveruse of the node's report, and a metric.
	OnlineReport = "Report"
	// OnlineOff: nobody looks.
	OnlineOff = "Off"
)

// EvictionNetwork is about a network interface that is full of what the node sends, or loses packets on the way out, although reclaimed pods have the floor alone of what they may
// send (node.lending.network, without which nothing of this is known and nobody goes). One of those pods that send most is asked to go, one at a time, with notice.
type EvictionNetwork struct {
	// For is how long that must have lasted.
	For Duration `json:"for"`
	// PerHour is how many evictions may be requested for it in an hour. 0: it is reported, and nobody goes.
	PerHour int `json:"perHour"`
	// Least is what a pod must send off the node to be worth its eviction, in bytes per second. More than the floor of all, 1 MiB/s, is more than any sends then.
	Least float64 `json:"least" needs:"node.eviction.network.perHour"`
}

// EvictionPlugins is about what detectors of plugins find (NodePlugins). Only reclaimed pods that a plugin names are asked to go, one at a time, with notice.
type EvictionPlugins struct {
	// For is how long a plugin must have found a condition.
	For Duration `json:"for"`
	// PerHour is how many evictions all plugins of the node together may have requested in an hour. 0: what they find is reported, and nobody goes.
	PerHour int `json:"perHour"`
}

// EvictionMark is a threshold of what is available: the greater of a share of the total and an absolute amount.
type EvictionMark struct {
	// Share is a share of the total.
	Share float64 `json:"share"`
	// Amount is in bytes or inodes.
	Amount float64 `json:"amount"`
	// Most bounds Amount on small machines, as a share of the total; 0: no bound. Of 1 GiB, 512 MiB would be half.
	Most float64 `json:"most"`
}

// EvictionWatermarks: the less is available, the worse.
type EvictionWatermarks struct {
	// Soft is the threshold below which it is short.
	Soft EvictionMark `json:"soft"`
	// Hard is the threshold below which it is very short. It must be below Soft.
	Hard EvictionMark `json:"hard"`
	// Clear is how far above a threshold, as a part of it, its level ends.
	Clear float64 `json:"clear"`
	// SoftFor is how long less than Soft must have been available.
	SoftFor Duration `json:"softFor"`
	// HardFor is how long less than Hard must have been available.
	HardFor Duration `json:"hardFor"`
}

// EvictionPressure is about online pods that wait for memory while less than Below is available.
type EvictionPressure struct {
	// Some is the share of time in which some task of the worst online pod waits, from which on memory is short.
	Some float64 `json:"some"`
	// Full is the share of time in which all tasks of the worst online pod wait, from which on memory is very short.
	Full float64 `json:"full"`
	// Below is what must be available for pressure not to count.
	Below EvictionMark `json:"below"`
	// Clear is the part of Some and Full at which a level ends.
	Clear float64 `json:"clear"`
	// SoftFor is how long Some must have lasted.
	SoftFor Duration `json:"softFor"`
	// HardFor is how long Full must have lasted.
	HardFor Duration `json:"hardFor"`
}

// EvictionOveruse is about a reclaimed pod that holds more memory than its amount. It ends at the amount and half of Tolerance and Slack.
type EvictionOveruse struct {
	// Tolerance is how much more it may hold, as a part of its amount.
	Tolerance float64 `json:"tolerance"`
	// Slack is how much more than that it may hold, in bytes.
	Slack float64 `json:"slack"`
	// For is how long it must have held more.
	For Duration `json:"for"`
}

// EvictionSuppressed is about reclaimed pods that have had the floor alone for After while one of them starves. What a pod wants is what it uses and waits for, up to
// its amount.
type EvictionSuppressed struct {
	// Share is the share of the CPU that it wants below which a pod starves.
	Share float64 `json:"share"`
	// Least is how many CPUs a pod must want to starve.
	Least float64 `json:"least"`
	// After is how long reclaimed pods must have had the floor alone.
	After Duration `json:"after"`
	// For is how long a pod must have starved.
	For Duration `json:"for"`
}

// EvictionCPU is about online pods that wait for CPUs although reclaimed pods have been at the floor for After.
type EvictionCPU struct {
	// Pressure is the CPU pressure of the worst online pod.
	Pressure float64 `json:"pressure"`
	// Clear is the part of Pressure at which it ends.
	Clear float64 `json:"clear"`
	// After is how long reclaimed pods must have been at the floor.
	After Duration `json:"after"`
	// For is how long the pressure must have lasted.
	For Duration `json:"for"`
}

// EvictionEscalation is what is done about a shortage, and when.
type EvictionEscalation struct {
	// ReclaimInterval is the time between two orders to reclaim memory for one shortage.
	ReclaimInterval Duration `json:"reclaimInterval"`
	// ReclaimShare is what such an order takes of a pod at most.
	ReclaimShare float64 `json:"reclaimShare"`
	// NoticeAfter is the time from the soft level to the notice.
	NoticeAfter Duration `json:"noticeAfter"`
	// NoticeGrace is the time from the notice to the request to evict.
	NoticeGrace Duration `json:"noticeGrace"`
	// RequestInterval is the time between two requests.
	RequestInterval Duration `json:"requestInterval"`
	// SettleFor is how long a pod runs until it is chosen like any other; before that the others go first.
	SettleFor Duration `json:"settleFor"`
	// UrgentAfter is the time from the hard level to an urgent request, which needs no notice.
	UrgentAfter Duration `json:"urgentAfter"`
	// UrgentInterval is the time between two urgent requests.
	UrgentInterval Duration `json:"urgentInterval"`
	// AnswerWithin is how long an urgent request may be unanswered until the agent stops a pod itself. The agent does not learn that a pod is leaving, so it is as
	// long as an evicted pod may take to end.
	AnswerWithin Duration `json:"answerWithin"`
	// RefusedFor is how long a disruption budget may refuse an urgent request until the agent stops a pod itself.
	RefusedFor Duration `json:"refusedFor"`
	// UnreachableFor is how long the API server may be away until the agent stops a pod itself.
	UnreachableFor Duration `json:"unreachableFor"`
	// StopInterval is the time between two stops on the node; at least 10 s, because no budget bounds them.
	StopInterval Duration `json:"stopInterval"`
	// LeaveWithin is how long a pod that is terminating counts as giving back what it has.
	LeaveWithin Duration `json:"leaveWithin"`
	// StopWithin is how long a pod that was stopped counts as giving back what it has.
	StopWithin Duration `json:"stopWithin"`
	// KeepStopped is how long a pod that was stopped keeps its eviction request: the kubelet would start it again.
	KeepStopped Duration `json:"keepStopped"`
	// LeastMemory is what a pod must give back of memory to be worth its eviction, in bytes.
	LeastMemory float64 `json:"leastMemory"`
	// LeastDisk is what a pod must give back of a file system, in bytes.
	LeastDisk float64 `json:"leastDisk"`
	// LeastInodes is what a pod must give back of a file system's inodes.
	LeastInodes float64 `json:"leastInodes"`
	// LeastCPU is what a pod must give back of CPU, in CPUs.
	LeastCPU float64 `json:"leastCPU"`
}

// EvictionClosing is how long a node that evicted takes no reclaimed pods: twice as long as the time before.
type EvictionClosing struct {
	// First is the shortest time.
	First Duration `json:"first"`
	// Most is the longest time.
	Most Duration `json:"most"`
	// Again halves the time, each time that it has passed since the node was opened.
	Again Duration `json:"again"`
}

// DefaultNodeEviction are the thresholds and times that nodes start with. The thresholds lie above the kubelet's own defaults.
func DefaultNodeEviction() NodeEviction {
	const mib = 1 << 20
	const softMost, belowMost, hardMost = 0.35, 0.4, 0.25 // the most of a small machine that absolute thresholds count as
	disk := func(soft, hard float64) EvictionWatermarks {
		return EvictionWatermarks{Soft: EvictionMark{Share: soft}, Hard: EvictionMark{Share: hard}, Clear: 0.1, SoftFor: seconds(30), HardFor: seconds(10)}
	}
	return NodeEviction{
		Memory: EvictionWatermarks{
			Soft: EvictionMark{0.08, 512 * mib, softMost}, Hard: EvictionMark{0.04, 256 * mib, hardMost}, Clear: 0.25, SoftFor: seconds(5), HardFor: seconds(2),
		},
		Pressure: EvictionPressure{
			Some: 0.2, Full: 0.1, Below: EvictionMark{0.09, 576 * mib, belowMost}, Clear: 0.5, SoftFor: seconds(10), HardFor: seconds(10),
		},
		NUMANode: EvictionWatermarks{
			Soft: EvictionMark{0.05, 256 * mib, softMost}, Hard: EvictionMark{0.02, 128 * mib, hardMost}, Clear: 0.25, SoftFor: seconds(10), HardFor: seconds(5),
		},
		Overuse:         EvictionOveruse{Tolerance: 0.1, Slack: 32 * mib, For: seconds(30)},
		Suppressed:      EvictionSuppressed{Share: 0.2, Least: 0.1, After: seconds(120), For: seconds(30)},
		CPU:             EvictionCPU{Pressure: 0.3, Clear: 0.5, After: seconds(30), For: seconds(30)},
		Root:            disk(0.15, 0.12),
		RootInodes:      disk(0.10, 0.07),
		Images:          disk(0.20, 0.17),
		ImageInodes:     disk(0.10, 0.07),
		Online:          EvictionOnline{Mode: OnlineReport, Tolerance: 0.1, Slack: 64 * mib, For: seconds(60)},
		Network:         EvictionNetwork{For: seconds(60), Least: 128 << 10},
		Plugins:         EvictionPlugins{For: seconds(30), PerHour: 6},
		WatermarkFactor: 2,
		ReleaseAfter:    seconds(10), BlindFor: seconds(30), MaxGap: seconds(15),
		Escalation: EvictionEscalation{
			ReclaimInterval: seconds(10), ReclaimShare: 0.25,
			NoticeAfter: seconds(15), NoticeGrace: seconds(30), RequestInterval: seconds(30), SettleFor: seconds(600),
			UrgentAfter: seconds(3), UrgentInterval: seconds(5),
			AnswerWithin: seconds(45), RefusedFor: seconds(5), UnreachableFor: seconds(10),
			StopInterval: seconds(10), LeaveWithin: seconds(45), StopWithin: seconds(10), KeepStopped: seconds(600),
			LeastMemory: 8 * mib, LeastDisk: 8 * mib, LeastInodes: 1000, LeastCPU: 0.01,
		},
		Close: EvictionClosing{First: seconds(300), Most: seconds(3600), Again: seconds(1800)},
	}
}
