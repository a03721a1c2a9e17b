package node

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/pods"
)

// burstController lets online pods that their own limits throttle burst (advise.StepBurst): cpu.max.burst of the pod's cgroup and of its containers', for each of them
// throttles by itself.
//
// The kernel refuses a limit below the burst. So before the kubelet lowers a limit, the bursts of the pod are taken away: the runtime asks first (yield), and the kubelet
// writes the pod's own cgroup after those of its containers. They stay away for restAfterUpdate. An agent that ends takes them away too, and one that starts takes away what
// it finds and would not give.
type burstController struct {
	node  *nodeState
	state advise.BurstState
	pods  map[string]*burstPod // by UID
}

// burstPod is a pod that has bursts, or had.
type burstPod struct {
	bursts map[string]int64 // as desired, by cgroup
	rests  time.Time        // until when it gets none
}

// restAfterUpdate is how long a pod gets no burst after a container of it was updated.
const restAfterUpdate = 30 * time.Second

func newBurstController(n *nodeState) *burstController {
	return &burstController{node: n, pods: make(map[string]*burstPod)}
}

// Tick implements controller.
func (b *burstController) Tick(in *inputs) (changed bool) {
	p := &b.node.options.Config.CPUBurst
	var seen []advise.BurstPod
	for _, pod := range b.node.Pods.Sorted() {
		if _, pool, known := b.node.Manager.Pod(pod.Ref.UID); known && pool != spec.PoolReclaimed && pod.Cgroup != "" {
			b.find(pod)
			seen = append(seen, advise.BurstPod{ID: pod.Ref.UID, Throttled: throttledShare(in.seen, pod)})
		}
	}
	may := advise.StepBurst(in.seen.laws.At, seen, p, &b.state)
	for i := range seen {
		pod := b.node.Pods.Of(seen[i].ID)
		known := b.pods[seen[i].ID]
		dirs := limitedCgroups(pod)
		maps.DeleteFunc(known.bursts, func(dir string, _ int64) bool { return !slices.Contains(dirs, dir) })
		for _, dir := range dirs {
			burst := int64(0)
			if may[seen[i].ID] && !in.now.Before(known.rests) {
				burst = advise.BurstOf(b.quota(dir), p.Share)
			}
			if had, has := known.bursts[dir]; burst != had || burst > 0 && !has {
				known.bursts[dir], changed = burst, true
			}
		}
	}
	return changed
}

// find returns what is known of a pod's bursts. The first time it reads them from the kernel: an agent before this one may have left some.
func (b *burstController) find(p *pods.Pod) *burstPod {
	known := b.pods[p.Ref.UID]
	if known == nil {
		known = &burstPod{bursts: make(map[string]int64)}
		b.pods[p.Ref.UID] = known
		for _, dir := range limitedCgroups(p) {
			text, err := b.node.options.Kernel.Read(dir + "/" + enforce.CPUMaxBurst)
			if burst, bad := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && bad == nil && burst > 0 {
				known.bursts[dir] = burst // Tick decides on it
			}
		}
	}
	return known
}

// limitedCgroups are the cgroups of a pod that may have a limit: its own and its containers'.
func limitedCgroups(p *pods.Pod) []string { return append([]string{p.Cgroup}, p.Cgroups()...) }

// quota is the limit of a cgroup in microseconds a period; 0: there is none, or the kernel knows no bursts.
func (b *burstController) quota(dir string) int64 {
	if _, err := b.node.options.Kernel.Read(dir + "/" + enforce.CPUMaxBurst); err != nil {
		return 0
	}
	text, err := b.node.options.Kernel.Read(dir + "/" + enforce.CPUMax)
	if err != nil {
		return 0
	}
	limit, period, _ := strings.Cut(strings.TrimSpace(text), " ")
	if period == limitPeriod {
		return 0 // it is a culprit's, and not of its own
	}
	quota, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return quota
}

// yield takes a pod's bursts away before its limits may change, those of an agent before this one too, and whether the node lends or not. It reports whether there were any.
func (b *burstController) yield(p *pods.Pod) (had bool) {
	if p == nil || p.Cgroup == "" {
		return false
	}
	known := b.find(p)
	known.rests = b.node.Now().Add(restAfterUpdate)
	for dir, burst := range known.bursts {
		had = had || burst > 0
		known.bursts[dir] = 0
	}
	return had
}

// giveBack takes all bursts away. It reports whether there were any.
func (b *burstController) giveBack() (had bool) {
	for _, known := range b.pods {
		for dir, burst := range known.bursts {
			had = had || burst > 0
			known.bursts[dir] = 0
		}
	}
	return had
}

// knobs are the bursts of pods that have some, or had. Pods that have gone are forgotten here, for on a node that does not lend no Tick comes.
func (b *burstController) knobs() (out []enforce.DesiredKnob) {
	maps.DeleteFunc(b.pods, func(uid string, _ *burstPod) bool { return b.node.Pods.Of(uid) == nil })
	for _, uid := range sortedKeys(b.pods) {
		for _, dir := range sortedKeys(b.pods[uid].bursts) {
			out = append(out, enforce.Desire(dir, enforce.CPUMaxBurst, strconv.FormatInt(b.pods[uid].bursts[dir], 10)))
		}
	}
	return out
}

// throttledShare is the share of its periods in which a pod was throttled, by its own cgroup's limit or a container's, whichever is more. Not known: none of them is.
func throttledShare(o *observation, p *pods.Pod) (out advise.Sample) {
	for _, dir := range limitedCgroups(p) {
		if share, ok := o.use(dir).CPU.ThrottledPeriods.Within(maxSenseAge); ok && (!out.Known || share > out.Value) {
			out = advise.Known(share)
		}
	}
	return out
}
