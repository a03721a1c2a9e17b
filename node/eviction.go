package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/topology"
)

// evictionController runs the law of eviction (evict.Step) at each observation, and carries out what it decides: it gives pods notice, has the report name
// the pods whose eviction the node requests, reads which of them disruption budgets refuse, and, past a hard threshold where no eviction comes in time,
// stops a pod itself.
type evictionController struct {
	node     *nodeState
	params   evict.Params
	state    evict.State
	decision evict.Decision
	told     map[string]bool      // pods that have had notice, by UID
	stopped  map[string]time.Time // pods that were stopped here, by UID: they are not started again before then
	stops    uint64
	budgets  *budgetAnswers
	disks    disks
	storage  *kubelet.Storage
	// interference asks for evictions too.
	interference *interferenceController
	// findings are what plugins say.
	findings  func(now time.Time) []evict.Finding
	governors *governorController
}

func newEvictionController(n *nodeState, storage *kubelet.Storage) (*evictionController, error) {
	config := &n.options.Config
	c := &evictionController{node: n, params: evict.ParamsOf(config), stopped: make(map[string]time.Time), storage: storage}
	if err := spec.CheckReserve(&config.Memory.Headroom, &config.Eviction); err != nil {
		return nil, fmt.Errorf("reclaimed pods would be evicted for what they were lent: %w", err)
	}
	c.budgets = &budgetAnswers{node: n}
	c.disks = disks{loop: n.Loop, read: n.options.Disks}
	return c, nil
}

// disksEvery is how often the file systems are looked at.
const disksEvery = 10 * time.Second

// maxDiskAge is how old a look may be that still counts.
const maxDiskAge = 4 * disksEvery

// Tick implements controller.
func (c *evictionController) Tick(in *inputs) (changed bool) {
	o := c.observe(in)
	c.decision = evict.Step(&o, &c.params, &c.state)
	maps.DeleteFunc(c.stopped, func(_ string, until time.Time) bool { return in.now.After(until) })
	c.notify(c.decision.Notices)
	do := c.effective()
	c.budgets.ask(c.requests(), in.now)
	in.reclaims = do.Reclaims
	if do.Stop != nil {
		c.stop(do.Stop, in.now)
	}
	return false
}

// requests are the evictions that the node asks for, those for want of something first.
func (c *evictionController) requests() []spec.EvictionRequest {
	out := slices.Clone(c.effective().Requests)
	for _, r := range c.interference.requests() {
		if !slices.ContainsFunc(out, func(o spec.EvictionRequest) bool { return o.UID == r.UID }) {
			out = append(out, r)
		}
	}
	return out
}

// effective is what is to be done of what was decided last: in a dry run nothing.
func (c *evictionController) effective() *evict.Decision {
	if c.decision.DryRun {
		return &evict.Decision{}
	}
	return &c.decision
}

// notify tells pods that they will have to go, once each.
func (c *evictionController) notify(notices []evict.Notice) {
	now := make(map[string]bool, len(notices))
	for i := range notices {
		n := &notices[i]
		if now[n.Pod.UID] = true; !c.told[n.Pod.UID] {
			c.node.Events.Note(n.Pod, allocate.Note{Reason: spec.ReasonEvictionNotice, Message: n.Message})
		}
	}
	c.told = now
}

// stop kills all that runs in a pod's cgroup, at one stroke. The kubelet would start it again; that is refused until the decision no longer
// stands.
func (c *evictionController) stop(s *evict.Stop, now time.Time) {
	p := c.node.Pods.Of(s.Pod.UID)
	if p == nil || p.Cgroup == "" {
		return
	}
	c.stopped[s.Pod.UID] = now.Add(c.params.Escalation.KeepStopped.D())
	c.stops++
	c.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonStopped, Message: s.Message})
	file := p.Cgroup + "/cgroup.kill"
	c.node.Loop.Work(func(context.Context) {
		if err := c.node.options.Kernel.Write(file, "1"); err != nil {
			c.node.Loop.Post(func() { c.node.Log.Error("a pod cannot be stopped", "pod", s.Pod.String(), "err", err) })
		}
	})
}

// startBarred says why a pod is not started: it was stopped here lately.
func (c *evictionController) startBarred(uid string) error {
	if until, stopped := c.stopped[uid]; stopped {
		return errors.New("hilbert: " + spec.ReasonStopped + ": it was stopped for want of memory and is not started here before " + until.Format(time.RFC3339))
	}
	return nil
}

// stopsLending reports whether the eviction manager wants nothing more lent.
func (c *evictionController) stopsLending() bool {
	return len(c.effective().NoLending) > 0
}

// closed says why the node takes no reclaimed pods; empty: it does.
func (c *evictionController) closed() string {
	closed := &c.effective().Closed
	if closed.Reason == "" {
		return ""
	}
	return fmt.Sprintf("%s; until %s", closed.Reason, c.node.Started.Add(closed.Until).UTC().Format(time.RFC3339))
}

// observe is what the law of eviction sees.
func (c *evictionController) observe(in *inputs) evict.Observation {
	seen, laws := in.seen, &in.seen.laws
	memory := &seen.seen.Node.Memory
	o := evict.Observation{
		At: laws.At, Suppression: in.advice.Suppression,
		Node: evict.Node{
			MemoryTotal: laws.Node.MemoryTotal, MemoryAvailable: availableMemory(seen), MemorySome: laws.Node.MemoryPressure,
			MemoryFull: c.worstStall(seen), SwapTotal: bytesOf(memory.SwapTotal), SwapFree: bytesOf(memory.SwapFree),
			CPUPressure: in.cpuPressure, MinWatermark: seen.minWatermark(),
		},
		API: c.apiState(in.reportsFail), Findings: c.findings(in.now),
	}
	for i := range laws.NUMANodes {
		z := &laws.NUMANodes[i]
		o.NUMANodes = append(o.NUMANodes, evict.NUMANode{Total: z.MemoryTotal, Free: z.MemoryFree, InactiveFile: seen.inactiveFile(i), LowWatermark: seen.lowWatermark(i), MemoryOnly: z.MemoryOnly})
	}
	network := c.governors.networkUse(in.now)
	o.Network = network.Network
	o.Root, o.Images = c.disks.look(in.now)
	if images := c.storage.Reading().Images(in.now); images != (evict.Disk{}) {
		o.Images = images
	}
	for _, p := range c.node.Pods.Sorted() {
		if pod, ok := c.observePod(seen, p); ok {
			pod.Root, pod.Images = c.storage.Reading().Pod(p.Ref.UID, in.now)
			pod.Sent = network.Sent[p.Cgroup]
			o.Pods = append(o.Pods, pod)
		}
	}
	return o
}

// availableMemory is what is left of the node's memory: the lesser of what the kernel says and what the kubelet reckons, for whom page cache in use is
// not to be had. So we see a shortage no later than it. Clean page cache is to be had whoever has it, a reclaimed pod too.
func availableMemory(seen *observation) advise.Sample {
	laws := &seen.laws
	out := laws.Node.MemoryAvailable
	var sum float64
	for i := range laws.NUMANodes {
		if laws.NUMANodes[i].MemoryOnly {
			continue
		}
		free, file := laws.NUMANodes[i].MemoryFree, seen.inactiveFile(i)
		if !free.Known || !file.Known {
			return out
		}
		sum += free.Value + file.Value
	}
	if len(laws.NUMANodes) > 0 && sum < out.Value {
		out.Value = sum
	}
	return out
}

// apiState is whether requests reach the API server: failing is since when the report cannot be written.
func (c *evictionController) apiState(failing time.Time) evict.API {
	switch {
	case c.node.ports.Report == nil:
		return evict.API{Unreachable: true}
	case failing.IsZero():
		return evict.API{Answers: c.budgets.refusals()}
	}
	return evict.API{Unreachable: true, Since: failing.Sub(c.node.Started)}
}

// worstStall is the worst online pod's share of time in which all of its tasks waited for memory.
func (c *evictionController) worstStall(seen *observation) (out advise.Sample) {
	out = advise.Known(0)
	for uid, p := range c.node.Pods.All() {
		if _, pool, ok := c.node.Manager.Pod(uid); ok && pool != spec.PoolReclaimed && pool != spec.PoolSystem {
			out = worst(out, rateOf(seen.use(p.Cgroup).MemoryPressure.Full.Avg10))
		}
	}
	return out
}

func (c *evictionController) observePod(seen *observation, p *pods.Pod) (out evict.Pod, ok bool) {
	asked, pool, known := c.node.Manager.Pod(p.Ref.UID)
	if !known {
		return out, false
	}
	level := pods.LevelOf(&asked, pool)
	use := seen.use(p.Cgroup)
	out = evict.Pod{
		PodRef: p.Ref, Level: level, Priority: p.PriorityOrZero(), Started: p.Since.Sub(c.node.Started),
		Memory: bytesOf(use.Memory.Current), RSS: plus(bytesOf(use.Memory.Anon), bytesOf(use.Memory.Shmem)),
		CPU: rateOf(use.CPU.Usage), RunDelay: seen.runDelay(p),
	}
	if r := asked.Reclaimed; r != (spec.ReclaimedAmounts{}) {
		const milli = 1000
		out.MemoryAmount, out.CPUAmount = advise.Known(float64(r.MemoryMiB*topology.Mebibyte)), advise.Known(float64(r.MilliCPU)/milli)
	}
	for i := range seen.laws.NUMANodes {
		out.NUMANodes = append(out.NUMANodes, seen.heldIn(use, i))
	}
	return out, true
}

// disks are the node's file systems, as they were looked at last. They are looked at beside the loop: one on a disk that does not answer holds up whoever
// asks for its state.
type disks struct {
	loop         *loop.Loop
	read         func() (root, images evict.Disk)
	busy         bool
	asked, seen  time.Time
	root, images evict.Disk
}

// look returns what was seen last, unless that is too long ago, and has the file systems looked at when that is due.
func (d *disks) look(now time.Time) (root, images evict.Disk) {
	if d.read != nil && !d.busy && now.Sub(d.asked) >= disksEvery && d.loop.Running() {
		d.busy, d.asked = true, now
		go func() { // not a worker of the loop: their end is waited for
			root, images := d.read()
			d.loop.Post(func() { d.busy, d.seen, d.root, d.images = false, now, root, images })
		}()
	}
	if now.Sub(d.seen) > maxDiskAge {
		return evict.Disk{}, evict.Disk{}
	}
	return d.root, d.images
}

const (
	// urgentAnswer and patientAnswer are how often it is read which requests disruption budgets refuse: while one is urgent, and else. A cluster may have
	// thousands of the latter.
	urgentAnswer  = 2 * time.Second
	patientAnswer = time.Minute
	answerTimeout = 5 * time.Second
)

// budgetAnswers are what disruption budgets say of the pods whose eviction is requested. hilbertd asks them, and writes down for the node who may not go.
type budgetAnswers struct {
	node   *nodeState
	asking bool
	asked  time.Time
	known  map[string]budgetAnswer // by UID, of requests that stand
}

// budgetAnswer is of one pod.
type budgetAnswer struct {
	refused bool
	since   time.Duration // when that was first read, on the clock of the observations
}

// ask reads the answers when that is due, beside the loop.
func (b *budgetAnswers) ask(requests []spec.EvictionRequest, now time.Time) {
	n := b.node
	known, every := make(map[string]budgetAnswer, len(requests)), patientAnswer
	for i := range requests {
		known[requests[i].UID] = b.known[requests[i].UID]
		if requests[i].Urgent {
			every = urgentAnswer
		}
	}
	b.known = known
	if b.asking || len(known) == 0 || now.Sub(b.asked) < every || n.ports.RefusedEvictions == nil || !n.Loop.Running() {
		return
	}
	b.asking, b.asked = true, now
	n.Loop.Work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		refused, err := n.ports.RefusedEvictions(ctx)
		if err != nil {
			n.Log.Debug("it is not known which evictions budgets refuse", "err", err)
			refused = nil // what is not known is no refusal
		}
		n.Loop.Post(func() {
			b.asking = false
			b.answered(refused, now.Sub(n.Started))
		})
	})
}

// answered takes what was read at that time. What is said of a request that has been withdrawn meanwhile does not count.
func (b *budgetAnswers) answered(refused []string, at time.Duration) {
	for uid, was := range b.known {
		is := budgetAnswer{refused: slices.Contains(refused, uid), since: was.since}
		if !was.refused {
			is.since = at
		}
		b.known[uid] = is
	}
}

// refusals are the answers as the law wants them.
func (b *budgetAnswers) refusals() (out []evict.Answer) {
	for _, uid := range sortedKeys(b.known) {
		if known := b.known[uid]; known.refused {
			out = append(out, evict.Answer{UID: uid, State: evict.Refused, Since: known.since})
		}
	}
	return out
}
