package spec

import "time"

// NodeMemory says how the agent lends memory, limits that of reclaimed pods, protects that of online pods, and takes back what is not used. Amounts are in
// bytes, shares from 0 to 1. A field that is not written has its default, and a 0 that is written means 0.
type NodeMemory struct {
	// Headroom says how much memory is offered to reclaimed pods.
	Headroom MemoryHeadroom `json:"headroom" needs:"node.lending.enabled"`
	// Limits are about memory.max and memory.high of reclaimed pods.
	Limits MemoryLimits `json:"limits" needs:"node.lending.enabled"`
	// Reclaim is about pods that come near their limit.
	Reclaim MemoryReclaim `json:"reclaim" needs:"node.lending.enabled"`
	// Cache is about page cache that is dropped when memory gets short.
	Cache MemoryCache `json:"cache" needs:"node.lending.enabled"`
	// Logs is about page cache of log files.
	Logs MemoryLogs `json:"logs" needs:"node.lending.enabled,node.memory.logs.bytesPerSecond"`
	// Offload is about memory that is taken from pods that do not use it.
	Offload MemoryOffload `json:"offload" needs:"node.lending.enabled"`
	// Swap is about how far reclaimed pods may swap.
	Swap MemorySwap `json:"swap" needs:"node.lending.enabled,node.memory.swap.share"`
	// Moves are moves of memory between NUMA nodes.
	Moves MemoryMoves `json:"moves" needs:"node.lending.enabled,node.memory.moves.enabled,node.memory.moves.bytesPerSecond"`
	// Protection is memory.low of online pods.
	Protection MemoryProtection `json:"protection" needs:"node.lending.enabled,node.memory.protection.enabled"`
	// Writes are how the kernel is told to reclaim memory.
	Writes MemoryWrites `json:"writes" needs:"node.lending.enabled"`
	// OOM is about whom the kernel kills when memory is exhausted.
	OOM MemoryOOM `json:"oom"`
}

// MemoryOOM says whom the kernel kills first when memory is exhausted, by oom_score_adj.
type MemoryOOM struct {
	// Order is OOMLevels or OOMReclaimed. It concerns containers that are created from then on.
	Order string `json:"order"`
}

// The values of MemoryOOM.Order.
const (
	// OOMLevels: the levels in order, reclaimed pods first and system pods last, and within a level the lower priority first.
	OOMLevels = "Levels"
	// OOMReclaimed: reclaimed pods first, the lower priority before the higher; all others have what the kubelet gives them.
	OOMReclaimed = "Reclaimed"
)

// MemoryHeadroom says how much memory is offered to reclaimed pods. Watermark and GrowthReserve together must be at least 1.25 times the soft thresholds of
// Node.Eviction.Memory and Node.Eviction.NUMANode: pods that hold all that they were offered must not be evicted for it.
type MemoryHeadroom struct {
	// FileShare is the share of the inactive page cache that counts as free.
	FileShare float64 `json:"fileShare"`
	// Watermark is the share of a NUMA node's memory that is kept free for the kernel.
	Watermark float64 `json:"watermark"`
	// GrowthReserve is the share of a NUMA node's memory that is kept free for online pods to grow into until memory is given back.
	GrowthReserve float64 `json:"growthReserve"`
	// UntouchedShare is the share of what reclaimed pods asked for and do not hold that counts as free. With 0 what they ask for always fits at once.
	UntouchedShare float64 `json:"untouchedShare"`
	// MemoryPressureHigh is the memory pressure of online pods from which on the headroom does not rise.
	MemoryPressureHigh float64 `json:"memoryPressureHigh"`
	// MemoryPressureCritical is the memory pressure of online pods from which on the headroom is what reclaimed pods hold.
	MemoryPressureCritical float64 `json:"memoryPressureCritical"`
	// MemoryDeadband is a change of the headroom that is too small to publish, in bytes.
	MemoryDeadband int64 `json:"memoryDeadband"`
}

// MemoryLimits are about memory.max and memory.high of reclaimed pods.
type MemoryLimits struct {
	// Least is the least limit of a reclaimed pod, in bytes, whatever its amount: less would kill it before it has begun.
	Least int64 `json:"least"`
	// Step is how far below what a pod holds its memory.high may be set, in bytes.
	Step int64 `json:"step"`
	// StepInterval is how often memory.high is lowered.
	StepInterval Duration `json:"stepInterval"`
}

// MemoryReclaim is about pods that come near their limit: they are reclaimed from by memory.reclaim, before the kernel does it in their way.
type MemoryReclaim struct {
	// At is the share of its limit from which on a pod is reclaimed from.
	At float64 `json:"at"`
	// To is the share of its limit down to which a pod is reclaimed from.
	To float64 `json:"to"`
	// Most is the most that one request takes, in bytes.
	Most int64 `json:"most"`
	// Least is the least that a request is made for, in bytes.
	Least int64 `json:"least"`
	// Total is the most that all requests of one tick take, in bytes.
	Total int64 `json:"total"`
	// Interval is the pause after a request.
	Interval Duration `json:"interval"`
	// MaxInterval is the longest pause: each request that got less than Poor doubles it.
	MaxInterval Duration `json:"maxInterval"`
	// Poor is the share of what was asked for below which a request got little.
	Poor float64 `json:"poor"`
	// Pressure is the memory pressure of online pods from which on nothing is reclaimed and nothing moves.
	Pressure float64 `json:"pressure"`
}

// MemoryCache is about page cache that is dropped when memory gets short.
type MemoryCache struct {
	// FreeLow is the share of the memory of the node, or of a NUMA node, below which page cache is dropped.
	FreeLow float64 `json:"freeLow"`
	// FreeHigh is the share that is free after that.
	FreeHigh float64 `json:"freeHigh"`
	// Keep is the inactive page cache that an online pod keeps, as a share of its working set.
	Keep float64 `json:"keep"`
}

// MemoryLogs is about page cache of log files. The runtime writes them, so it belongs to no pod, and reclaim from pods does not reach it.
type MemoryLogs struct {
	// BytesPerSecond is the most page cache of files in Node.LogDirectories that is dropped in a second, while the node or a NUMA node has less free memory than Cache says.
	// 0: none is dropped.
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// Keep is the page cache that the end of each file keeps, in bytes, for those who follow it.
	Keep int64 `json:"keep"`
}

// MemoryOffload is about memory that is taken from pods that do not use it.
type MemoryOffload struct {
	// Reclaimed takes it from reclaimed pods.
	Reclaimed bool `json:"reclaimed"`
	// Online takes it from online pods: page cache alone.
	Online bool `json:"online"`
	// Share is what is taken of a pod that feels no pressure, each Interval; the more it feels, the less.
	Share float64 `json:"share" needs:"node.memory.offload.reclaimed|node.memory.offload.online"`
	// Pressure is the pod's own memory pressure from which on nothing is taken.
	Pressure float64 `json:"pressure" needs:"node.memory.offload.reclaimed|node.memory.offload.online|node.memory.swap.share"`
	// Interval is how often something is taken.
	Interval Duration `json:"interval" needs:"node.memory.offload.reclaimed|node.memory.offload.online"`
	// Refaults is the share of a pod's memory that may come back per second. Beyond it the interval doubles, and a pod near its limit is not reclaimed from.
	Refaults float64 `json:"refaults"`
	// SwapReserve is the swap of the node that is left alone, in bytes.
	SwapReserve int64 `json:"swapReserve"`
}

// MemorySwap is about how far reclaimed pods may swap, on a node that has swap: memory.swap.max and memory.zswap.max. The kubelet lets them swap nothing. What is taken from
// them is what Reclaim and Offload ask for; Offload.SwapReserve of the node's swap is left alone.
type MemorySwap struct {
	// Share is the share of its amount that a reclaimed pod may have in swap. 0: the agent sets nothing.
	Share float64 `json:"share"`
	// ZswapShare is the share of its amount that the pod's compressed pages may take in memory (zswap), beyond which they go to the disk. 0: no such bound.
	ZswapShare float64 `json:"zswapShare"`
	// Floor is what a pod keeps in memory, in bytes: one that holds no more swaps no more.
	Floor int64 `json:"floor"`
	// Step is the most that a pod may swap in an interval, in bytes.
	Step int64 `json:"step"`
	// Interval is how often a pod may swap a step more.
	Interval Duration `json:"interval"`
}

// MemoryMoves are moves of reclaimed pods' memory out of a NUMA node that is short.
type MemoryMoves struct {
	// Enabled turns moves on.
	Enabled bool `json:"enabled"`
	// Most is the most that a pod may hold in the NUMA node to be moved, in bytes.
	Most int64 `json:"most"`
	// BytesPerSecond is how much all moves together copy over time: the next one waits for what the last one copied. 0: nothing moves.
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// After is how long a NUMA node must have been short.
	After Duration `json:"after"`
	// Deadline is when a move is given up.
	Deadline Duration `json:"deadline"`
	// Interval is the least time between two moves. After one that did not come to an end it doubles, up to Rest.
	Interval Duration `json:"interval"`
	// Rest is the least time between two moves of one pod.
	Rest Duration `json:"rest"`
}

// MemoryProtection is memory.low of online pods: their requests, at most what they hold and Margin of it. It rises at once.
type MemoryProtection struct {
	// Enabled turns the protection on.
	Enabled bool `json:"enabled"`
	// Cache is the part of inactive page cache that counts. Where the kernel has the multi-generational LRU on, cache that is read all the time is inactive
	// too, so with less than 1 a pod that reads more would take it away.
	Cache float64 `json:"cache"`
	// Margin is added to what a pod holds, as a share of it.
	Margin float64 `json:"margin"`
	// Share is the share of the node's memory that is protected at most.
	Share float64 `json:"share"`
	// Interval is how long a lower value waits.
	Interval Duration `json:"interval"`
}

// The bounds of MemoryWrites: a write cannot be called back, and each worker may hold a thread of the process in the kernel.
const (
	LeastMemoryWrite = 1 << 20
	MaxMemoryWrite   = 32 << 20
	MaxMemoryWorkers = 64
)

// MemoryWrites are how the kernel is told to reclaim memory: in small steps, because a write to memory.reclaim cannot be called back.
type MemoryWrites struct {
	// Step is how much one write asks for, in bytes.
	Step int64 `json:"step"`
	// StepTime is how long one write should take: after a longer one the next asks for half, after one of less than half of it for twice as much.
	StepTime Duration `json:"stepTime"`
	// Rest is the pause between two writes: a process that waits for a lock of the kernel's gets it.
	Rest Duration `json:"rest"`
	// Deadline ends a request, however much is left.
	Deadline Duration `json:"deadline"`
	// Workers is how many cgroups are reclaimed from at once.
	Workers int `json:"workers"`
}

// DefaultNodeMemory is what suits a node of some 100 GiB with some hundred pods.
func DefaultNodeMemory() NodeMemory {
	const mib = 1 << 20
	return NodeMemory{
		Headroom: MemoryHeadroom{
			FileShare: 0.5, Watermark: 0.02, GrowthReserve: 0.08, UntouchedShare: 0.8, MemoryPressureHigh: 0.05, MemoryPressureCritical: 0.2, MemoryDeadband: 64 * mib,
		},
		Limits: MemoryLimits{Least: 64 * mib, Step: 32 * mib, StepInterval: seconds(5)},
		Reclaim: MemoryReclaim{
			At: 0.9, To: 0.8, Most: 256 * mib, Least: 64 << 10, Total: 1024 * mib,
			Interval: seconds(2), MaxInterval: seconds(300), Poor: 0.25, Pressure: 0.1,
		},
		Cache:      MemoryCache{FreeLow: 0.03, FreeHigh: 0.05, Keep: 0.25},
		Logs:       MemoryLogs{Keep: mib},
		Offload:    MemoryOffload{Reclaimed: true, Share: 0.002, Pressure: 0.01, Interval: seconds(6), Refaults: 0.002, SwapReserve: 64 * mib},
		Swap:       MemorySwap{Floor: 64 * mib, Step: 32 * mib, Interval: seconds(5)},
		Moves:      MemoryMoves{Enabled: true, Most: 512 * mib, BytesPerSecond: 8 * mib, After: seconds(10), Deadline: seconds(30), Interval: seconds(60), Rest: seconds(600)},
		Protection: MemoryProtection{Enabled: true, Cache: 1, Margin: 0.1, Share: 0.7, Interval: seconds(60)},
		Writes: MemoryWrites{
			Step: MaxMemoryWrite, StepTime: Duration(200 * time.Millisecond), Rest: Duration(10 * time.Millisecond), Deadline: seconds(10), Workers: 8,
		},
		OOM: MemoryOOM{Order: OOMLevels},
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
