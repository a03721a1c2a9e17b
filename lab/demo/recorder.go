package demo

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/lab/report"
	"hilbert.dev/hilbert/topology"
)

const (
	// sampleEvery is how often the state is kept at first.
	sampleEvery = 250 * time.Millisecond
	// maxSamples bounds the samples: when so many are kept, every other is dropped and half as many are taken from then on.
	maxSamples = 4000
)

// Labels of the demo's pods.
const (
	labelApp  = "app"
	labelWork = "lab.hilbert.dev/work"
	offline   = "offline"
)

// recorder keeps the account of all pods that one scheduler is responsible for. Its methods may be called by several goroutines.
type recorder struct {
	mu      sync.Mutex
	started time.Time
	nodes   map[string]int // to an index of use
	pods    map[types.UID]*podRecord
	works   map[string]*report.Workload

	now    report.Sample // all but At
	use    []report.Use  // of each node
	added  time.Time     // when a pod was last seen for the first time
	placed time.Time     // when a pod was last seen with its node for the first time
	ended  time.Time     // when a pod last ended or was deleted
	finite int           // pods that have a node and will end by themselves
	unsaid int           // pending pods without a condition

	every     time.Duration
	next      time.Time // of the next sample
	samples   []report.Sample
	most      int64        // CPU allocated in any sample
	fullest   []report.Use // of each node, at that sample
	fullestAt time.Duration
	waits     []time.Duration
	boundAt   []time.Duration
	unseen    int // pods that were bound before they were seen
}

// podRecord is what is known of one pod.
type podRecord struct {
	name    string
	work    *report.Workload
	offline bool
	finite  bool
	request report.Amount

	created         time.Time
	node            int // index of its node; -1 for a node that is not one of ours
	state           podState
	reason, message string
}

type podState int

const (
	pending podState = iota
	bound
	running
	succeeded
	failed
)

// live says that a pod in this state holds its node's resources.
func (s podState) live() bool { return s == bound || s == running }

func newRecorder(nodes []hollow.Shape, at time.Time) *recorder {
	r := &recorder{
		started: at, nodes: make(map[string]int, len(nodes)), pods: make(map[types.UID]*podRecord), works: make(map[string]*report.Workload),
		use: make([]report.Use, len(nodes)), fullest: make([]report.Use, len(nodes)), every: sampleEvery, next: at,
	}
	for i, n := range nodes {
		r.nodes[n.Name] = i
	}
	return r
}

// observe takes in the newest state of a pod, seen at the given time.
func (r *recorder) observe(pod *corev1.Pod, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, known := r.pods[pod.UID]
	if !known {
		p = r.add(pod, at)
	}
	if state := stateOf(pod); state != p.state {
		r.move(p, pod, state, at, known)
	}
	if p.state == pending {
		r.explain(p, pod)
	}
}

func (r *recorder) add(pod *corev1.Pod, at time.Time) *podRecord {
	p := &podRecord{name: pod.Namespace + "/" + pod.Name, offline: isOffline(pod), request: requestOf(pod), created: at, node: -1}
	_, p.finite = pod.Annotations[hollow.AnnotationRunSeconds]
	name := workloadName(pod)
	if p.work = r.works[name]; p.work == nil {
		p.work = &report.Workload{Name: name, Offline: p.offline, Each: p.request}
		if pod.Spec.Priority != nil {
			p.work.Priority = *pod.Spec.Priority
		}
		r.works[name] = p.work
	}
	if p.work.Each != p.request {
		p.work.Varied = true
	}
	r.pods[pod.UID] = p
	p.work.Created++
	r.now.Created++
	r.now.Pending++
	r.unsaid++
	r.added = at
	return p
}

// move brings a pod from its state into another one, which may be several steps on.
func (r *recorder) move(p *podRecord, pod *corev1.Pod, to podState, at time.Time, seenBefore bool) {
	from := p.state
	if to < from {
		return // a list may be older than an event; pods never go back
	}
	if from == pending {
		r.now.Pending--
		if p.reason == "" {
			r.unsaid--
		}
		if pod.Spec.NodeName != "" {
			r.bind(p, pod.Spec.NodeName, at, seenBefore)
		}
	}
	if !to.live() {
		r.ended = at
	}
	if from.live() && !to.live() {
		r.release(p)
	}
	switch from {
	case running:
		r.now.Running--
	case pending, bound, succeeded, failed:
	}
	switch to {
	case running:
		r.now.Running++
	case succeeded:
		r.now.Succeeded++
		p.work.Finished++
	case failed:
		r.now.Failed++
	case pending, bound:
	}
	if from == pending && to.live() {
		r.take(p)
	}
	p.state = to
}

func (r *recorder) bind(p *podRecord, node string, at time.Time, seenBefore bool) {
	if i, ours := r.nodes[node]; ours {
		p.node = i
	}
	r.placed = at
	r.now.Bound++
	p.work.Bound++
	r.boundAt = append(r.boundAt, at.Sub(r.started))
	if !seenBefore {
		r.unseen++
		return
	}
	r.waits = append(r.waits, at.Sub(p.created))
}

func (r *recorder) take(p *podRecord) {
	if p.finite {
		r.finite++
	}
	r.charge(p, p.request, 1)
}

func (r *recorder) release(p *podRecord) {
	if p.finite {
		r.finite--
	}
	r.charge(p, report.Amount{}.Minus(p.request), -1)
}

func (r *recorder) charge(p *podRecord, amount report.Amount, pods int) {
	total := &r.now.Online
	if p.offline {
		total = &r.now.Offline
	}
	*total = total.Plus(amount)
	if p.node < 0 {
		return
	}
	use := &r.use[p.node]
	use.Pods += pods
	if p.offline {
		use.Offline = use.Offline.Plus(amount)
	} else {
		use.Online = use.Online.Plus(amount)
	}
}

// explain keeps what the scheduler says about a pending pod.
func (r *recorder) explain(p *podRecord, pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason == "" {
			continue
		}
		if p.reason == "" {
			r.unsaid--
		}
		p.reason, p.message = c.Reason, c.Message
	}
}

// remove forgets a pod that was deleted.
func (r *recorder) remove(uid types.UID, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, known := r.pods[uid]
	if !known {
		return
	}
	delete(r.pods, uid)
	r.ended = at
	switch p.state {
	case pending:
		r.now.Pending--
		if p.reason == "" {
			r.unsaid--
		}
	case running:
		r.now.Running--
	case bound, succeeded, failed:
	}
	if p.state.live() {
		r.release(p)
	}
}

// retain forgets all pods that are not in a complete list.
func (r *recorder) retain(list map[types.UID]bool, at time.Time) {
	r.mu.Lock()
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(r.pods)), func(uid types.UID) bool { return list[uid] })
	r.mu.Unlock()
	for _, uid := range gone {
		r.remove(uid, at)
	}
}

// sample keeps the state if it is time to, and returns it.
func (r *recorder) sample(at time.Time) report.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	now.At = at.Sub(r.started)
	if at.Before(r.next) {
		return now
	}
	r.keep(now)
	r.next = at.Add(r.every)
	return now
}

func (r *recorder) keep(now report.Sample) {
	if len(r.samples) >= maxSamples {
		half := r.samples[:0]
		for i, s := range r.samples {
			if i%2 == 0 || s.At == r.fullestAt {
				half = append(half, s)
			}
		}
		r.samples = half
		r.every *= 2
	}
	r.samples = append(r.samples, now)
	if cpu := now.Online.CPU + now.Offline.CPU; cpu > r.most {
		r.most, r.fullestAt = cpu, now.At
		copy(r.fullest, r.use)
	}
}

// unplaced groups the pods without a node by what the scheduler said about them, the most frequent first.
func (r *recorder) unplaced() []report.Unplaced {
	type key struct{ reason, message string }
	groups := make(map[key]*report.Unplaced)
	for _, p := range r.pods {
		if p.state != pending {
			continue
		}
		k := key{p.reason, p.message}
		g := groups[k]
		if g == nil {
			g = &report.Unplaced{Reason: p.reason, Message: p.message, Example: p.name}
			groups[k] = g
		}
		g.Pods++
		g.Example = min(g.Example, p.name)
	}
	out := make([]report.Unplaced, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b report.Unplaced) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out
}

func stateOf(pod *corev1.Pod) podState {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return succeeded
	case corev1.PodFailed:
		return failed
	case corev1.PodRunning:
		return running
	default:
		if pod.Spec.NodeName != "" {
			return bound
		}
		return pending
	}
}

// requestOf is the pod's effective request, as schedulers count it.
func requestOf(pod *corev1.Pod) report.Amount {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	gpus, milli := list[spec.ResourceNvidiaGPU], list[spec.ResourceGPUMilli]
	return report.Amount{
		CPU:    list.Cpu().MilliValue(),
		Memory: list.Memory().Value(),
		GPU:    gpus.Value()*topology.FullGPU + milli.Value(),
	}
}

// isOffline goes by the label, and without one takes what restarts for ever to be online.
func isOffline(pod *corev1.Pod) bool {
	if kind, set := pod.Labels[labelWork]; set {
		return kind == offline
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
}

// workloadName is how a pod is counted: by its app label, else by what owns it, else by itself being alone.
func workloadName(pod *corev1.Pod) string {
	if app := pod.Labels[labelApp]; app != "" {
		return app
	}
	if len(pod.OwnerReferences) > 0 {
		return pod.OwnerReferences[0].Name
	}
	return "pods without an owner"
}
