package node

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/shrink"
	"hilbert.dev/hilbert/topology"
)

// memoryController limits the memory of reclaimed pods, protects that of online pods, and has unused memory reclaimed. At each observation it runs the
// memory laws (advise.StepMemory); limits and protection become desired knobs, and what is to be reclaimed goes to the shrinker, which works beside the
// loop in small steps.
type memoryController struct {
	node     *nodeState
	params   spec.NodeMemory
	state    advise.MemoryState
	advice   advise.MemoryAdvice
	shrinker *shrink.Shrinker
	gauge    *shrink.Gauge
	// results are what came of the last request, by the cgroup's directory.
	results map[string]advise.ReclaimResult
	// groups are what the kernel says of the cgroups that protect online pods, as read at grouped.
	groups  []advise.MemoryGroup
	grouped time.Time
	limits  map[string]advise.MemoryLimit // of reclaimed pods, by directory
	logs    logPages
	parts   map[MemoryPart]int64
}

// MemoryPart is memory of pods that is counted beside what the laws see.
type MemoryPart struct {
	// Kind is one of the kinds below.
	Kind      string
	Reclaimed bool
}

// The kinds of MemoryPart: buffers of sockets, which reclaim cannot get, and anonymous memory in transparent huge pages, of which a part may be unused.
const (
	PartSockets  = "sockets"
	PartHugeAnon = "huge_anon"
)

// count adds a pod's parts, as far as they are known.
func (m *memoryController) count(reclaimed bool, sockets, huge advise.Sample) {
	for kind, value := range map[string]advise.Sample{PartSockets: sockets, PartHugeAnon: huge} {
		if value.Known {
			m.parts[MemoryPart{kind, reclaimed}] += int64(value.Value)
		}
	}
}

// groupsEvery is how often the files of memory protection are read: they change when pods come and go.
const groupsEvery = 10 * time.Second

func newMemoryController(n *nodeState) *memoryController {
	m := &memoryController{
		node: n, params: n.options.Config.Memory, results: make(map[string]advise.ReclaimResult), limits: make(map[string]advise.MemoryLimit),
	}
	m.logs.node = n
	m.gauge = shrink.NewGauge(n.options.Kernel, m.params.Reclaim.Pressure)
	m.shrinker = shrink.New(n.options.Kernel, m.params.Writes, m.gauge.High, func(r shrink.Result) { n.Loop.Post(func() { m.reclaimed(r) }) })
	return m
}

// adjust changes the parameters from the next step on. Requests under way end as they began.
func (m *memoryController) adjust(p *spec.NodeMemory) {
	m.params = *p
	m.gauge.SetLimit(p.Reclaim.Pressure)
	m.shrinker.SetParams(p.Writes)
}

// reclaimed takes what came of a request.
func (m *memoryController) reclaimed(r shrink.Result) {
	m.results[r.Cgroup] = advise.ReclaimResult{
		Asked: r.Bytes, Got: r.Got, Ended: m.node.Now().Sub(m.node.Started), Cut: r.Outcome == shrink.Pressed || r.Outcome == shrink.Stopped,
	}
	if r.Err != nil {
		m.node.Log.Warn("memory cannot be reclaimed", "cgroup", r.Cgroup, "outcome", r.Outcome, "err", r.Err)
	}
}

// Tick implements controller. First it does what the eviction controller wants reclaimed before pods are evicted.
func (m *memoryController) Tick(in *inputs) (changed bool) {
	for i := range in.reclaims {
		if p := m.node.Pods.Of(in.reclaims[i].Pod.UID); p != nil && p.Cgroup != "" {
			m.shrink(shrink.Request{ID: in.reclaims[i].Reason.String(), Cgroup: p.Cgroup, Bytes: in.reclaims[i].Bytes})
		}
	}
	before := m.advice
	o := m.observe(in)
	var online []string
	for i := range o.Pods {
		if !o.Pods[i].Reclaimed {
			online = append(online, o.Pods[i].Dir)
		}
	}
	m.gauge.Watch(online)
	m.advice = advise.StepMemory(&o, &m.params, &m.state)
	clear(m.limits)
	for _, l := range m.advice.Limits {
		m.limits[l.Dir] = l
	}
	for _, ask := range m.advice.Reclaims {
		m.shrink(shrink.Request{ID: string(ask.Why), Cgroup: ask.Dir, Bytes: ask.Bytes, FileOnly: ask.FileOnly})
	}
	m.logs.drop(in.now, m.advice.LogPages, m.params.Logs.Keep)
	for dir := range m.results { // only of pods that are here
		if !slices.ContainsFunc(o.Pods, func(p advise.MemoryPod) bool { return p.Dir == dir }) {
			delete(m.results, dir)
		}
	}
	moves := before.Move != m.advice.Move && (before.Move == nil || m.advice.Move == nil || *before.Move != *m.advice.Move)
	return moves || !slices.Equal(before.Limits, m.advice.Limits) || !slices.Equal(before.Lows, m.advice.Lows) || !slices.Equal(before.Swaps, m.advice.Swaps)
}

// shrink requests that memory be reclaimed. A request that is dropped now is made again at the next tick, if it is still wanted.
func (m *memoryController) shrink(r shrink.Request) {
	if err := m.shrinker.Ask(r); err != nil {
		m.node.Log.Debug("not reclaimed", "err", err)
	}
}

// observe is what the memory laws see.
func (m *memoryController) observe(in *inputs) advise.MemoryObservation {
	seen, laws := in.seen, &in.seen.laws
	node := &seen.seen.Node.Memory
	o := advise.MemoryObservation{
		At: laws.At, Total: bytesOf(node.Total), Free: bytesOf(node.Free), SwapTotal: bytesOf(node.SwapTotal), SwapFree: bytesOf(node.SwapFree),
		OnlinePressure: laws.Node.MemoryPressure, Recursive: m.node.options.Recursive, DroppingLogs: m.logs.busy,
		CPUWaits: waitsForCPU(in.advice),
	}
	o.Headroom.Known = len(in.advice.NUMANodes) == len(laws.NUMANodes)
	for z, advice := range in.advice.NUMANodes {
		if z < len(laws.NUMANodes) {
			numa, headroom := &laws.NUMANodes[z], runningHeadroom(&advice.Memory)
			o.Headroom.Value += headroom.Value
			o.Headroom.Known = o.Headroom.Known && headroom.Known
			o.NUMANodes = append(o.NUMANodes, advise.MemoryNUMANode{Total: numa.MemoryTotal, Free: numa.MemoryFree, Headroom: headroom})
		}
	}
	m.parts = make(map[MemoryPart]int64)
	for _, p := range m.node.Pods.Sorted() {
		if pod, ok := m.observePod(seen, p); ok {
			o.Pods = append(o.Pods, pod)
		}
	}
	slices.SortFunc(o.Pods, func(x, y advise.MemoryPod) int { return cmp.Compare(x.ID, y.ID) })
	o.Groups = m.protection(o.Pods, in.now)
	return o
}

// waitsForCPU reports whether online pods wait for CPUs, or may do so.
func waitsForCPU(a *advise.Advice) bool {
	return a.Suppression > advise.SuppressNone || slices.ContainsFunc(a.NUMANodes, func(n advise.NUMAAdvice) bool { return n.LendReason == advise.BoundByMissing })
}

// runningHeadroom is what running reclaimed pods may hold: what the law finds now. The published headroom rises late, and is zero for minutes after a start:
// that keeps new pods away, and must take nothing from pods that run.
func runningHeadroom(h *advise.Headroom) advise.Sample {
	return advise.Sample{Value: float64(h.Now), Known: h.Reason != advise.BoundByMissing}
}

func (m *memoryController) observePod(seen *observation, p *pods.Pod) (out advise.MemoryPod, ok bool) {
	asked, pool, known := m.node.Manager.Pod(p.Ref.UID)
	if !known || pool == spec.PoolSystem || p.Cgroup == "" {
		return out, false
	}
	use := seen.use(p.Cgroup)
	const pageSize = 4096
	refaults := plus(rateOf(use.Memory.RefaultAnon), rateOf(use.Memory.RefaultFile))
	out = advise.MemoryPod{
		ID: p.Ref.Namespace + "/" + p.Ref.Name, Dir: p.Cgroup, Reclaimed: pool == spec.PoolReclaimed, NUMANode: advise.AnyNUMANode,
		Current: bytesOf(use.Memory.Current), Anon: bytesOf(use.Memory.Anon),
		InactiveFile: bytesOf(use.Memory.InactiveFile), ActiveFile: bytesOf(use.Memory.ActiveFile),
		Sockets:    bytesOf(use.Memory.Sockets),
		Pressure:   rateOf(use.MemoryPressure.Some.Avg10),
		Refaults:   advise.Sample{Value: refaults.Value * pageSize, Known: refaults.Known},
		Reclaiming: m.shrinker.Busy(p.Cgroup), Last: m.results[p.Cgroup],
	}
	m.count(out.Reclaimed, out.Sockets, bytesOf(use.Memory.HugeAnon))
	if out.Reclaimed {
		out.Amount = asked.Reclaimed.MemoryMiB * topology.Mebibyte
	}
	for i := range seen.laws.NUMANodes {
		numa := seen.numaOf(use, i)
		out.NUMANodes = append(out.NUMANodes, advise.MemoryShare{Anon: bytesOf(numa.Anon), File: bytesOf(numa.File)})
	}
	if out.Reclaimed {
		out.SwapRoom = m.swapRoom(p)
		out.Swap, out.SwapMax = shrink.Swap(m.node.options.Kernel, p.Cgroup)
		return out, true
	}
	if asked.MemoryLimit > 0 {
		out.Limit = advise.Known(float64(asked.MemoryLimit))
	}
	for _, id := range sortedKeys(p.Containers) {
		c := p.Containers[id]
		if c.Cgroup == "" || !c.Exists {
			continue
		}
		use := seen.use(c.Cgroup)
		out.Containers = append(out.Containers, advise.MemoryContainer{
			Dir: c.Cgroup, Request: memoryRequest(c, bytesOf(seen.seen.Node.Memory.Total)), Current: bytesOf(use.Memory.Current), InactiveFile: bytesOf(use.Memory.InactiveFile),
		})
	}
	return out, true
}

// swapRoom is what a pod may yet swap, read as rarely as the groups.
func (m *memoryController) swapRoom(p *pods.Pod) advise.Sample {
	if p.SwapLooked != m.grouped {
		p.SwapLooked, p.SwapRoom = m.grouped, shrink.SwapRoom(m.node.options.Kernel, p.Cgroup, p.Cgroups())
	}
	return p.SwapRoom
}

// The kubelet's scores: what a Guaranteed container has at most, and the least and the most of a Burstable one.
const guaranteedScore, leastScore, mostScore = 2, 3, 999

// memoryRequest is what a container asked for, in bytes. The runtime is told limits alone; but the kubelet makes a Burstable container's
// oom_score_adj of its part of the node's memory, in thousandths, and a Guaranteed one's request is its limit.
func memoryRequest(c *pods.Container, total advise.Sample) int64 {
	switch {
	case c.Score == nil:
		return 0
	case *c.Score <= guaranteedScore:
		return c.MemoryLimit
	case *c.Score >= mostScore || *c.Score == leastScore || !total.Known:
		return 0
	}
	const thousandths = 1000
	return int64(total.Value) / thousandths * int64(thousandths-*c.Score)
}

// protection is what the kernel says of the cgroups of online pods, and of those above them.
func (m *memoryController) protection(pods []advise.MemoryPod, now time.Time) []advise.MemoryGroup {
	if now.Sub(m.grouped) < groupsEvery {
		return m.groups
	}
	m.grouped, m.groups = now, nil
	seen := make(map[string]bool)
	add := func(dir string) {
		for ; dir != "" && dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	for i := range pods {
		if pods[i].Reclaimed {
			continue
		}
		add(pods[i].Dir)
		for _, c := range pods[i].Containers {
			add(c.Dir)
		}
	}
	m.groups = shrink.Groups(m.node.options.Kernel, sortedKeys(seen))
	return m.groups
}

// knobs are the knobs of memory control: limits, which may wait for the kernel to reclaim, and protection.
func (m *memoryController) knobs() (fast, slow []enforce.DesiredKnob) {
	pods := m.node.Pods.Sorted()
	for _, pod := range pods {
		p, ok := m.node.Placement(pod)
		if !ok || !pod.BestEffort || pod.Cgroup == "" || p.MemoryMax == 0 && p.Pool != spec.PoolReclaimed {
			continue
		}
		limit := m.limits[pod.Cgroup]
		if most := cmp.Or(limit.Max, p.MemoryMax); most > 0 {
			slow = append(slow, enforce.Desire(pod.Cgroup, enforce.MemoryMax, bytesValue(most)))
		}
		if limit.High > 0 {
			slow = append(slow, enforce.Desire(pod.Cgroup, enforce.MemoryHigh, bytesValue(limit.High)))
		}
	}
	for i := range m.advice.Swaps {
		fast = append(fast, swapKnobs(pods, &m.advice.Swaps[i])...)
	}
	for _, low := range m.advice.Lows {
		fast = append(fast, enforce.Desire(low.Dir, enforce.MemoryLow, bytesValue(low.Bytes)))
	}
	return fast, slow
}

// swapKnobs let a reclaimed pod swap, or take that back. The kubelet lets containers of BestEffort pods swap nothing.
func swapKnobs(of []*pods.Pod, s *advise.MemorySwap) []enforce.DesiredKnob {
	i := slices.IndexFunc(of, func(p *pods.Pod) bool { return p.Cgroup == s.Dir })
	if i < 0 || !of[i].BestEffort {
		return nil
	}
	pod := of[i]
	own, containers := bytesValue(s.Max), bytesValue(s.Max)
	if s.Release {
		containers = "0"
	}
	out := []enforce.DesiredKnob{enforce.Desire(pod.Cgroup, enforce.SwapMax, own)}
	for _, dir := range pod.Cgroups() {
		out = append(out, enforce.Desire(dir, enforce.SwapMax, containers))
	}
	return append(out, enforce.Desire(pod.Cgroup, enforce.ZswapMax, bytesValue(s.Zswap)))
}

func bytesValue(bytes int64) string {
	if bytes == advise.Unlimited {
		return "max"
	}
	return strconv.FormatInt(bytes, 10)
}

// moveTarget is the NUMA node that a pod's memory is being moved to; false while no move is advised.
func (m *memoryController) moveTarget(cgroup string) (mems string, ok bool) {
	move := m.advice.Move
	if move == nil || move.Dir != cgroup {
		return "", false
	}
	return strconv.Itoa(m.node.options.Machine.NUMA[move.To].ID), true
}
