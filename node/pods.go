package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/topology"
)

// pod is a pod that has been admitted.
type pod struct {
	name       spec.PodRef
	sandbox    string // the newest one
	cgroup     string
	bestEffort bool
	// priority is as its Binding says; nil: Hilbert has not bound it.
	priority *int32
	// resources is what its Binding says of plugins' resources.
	resources string
	// background: its traffic is the least important; trafficFault is what is wrong with what it says of that.
	background   bool
	trafficFault error
	// requestedCPU says what it asked for before its requests were lowered.
	requestedCPU string
	labels       map[string]string
	address      string             // its IP; empty: it has none of its own
	profile      *spec.NamedProfile // nil: none selects it
	conflict     string             // the last conflict of profiles that was told
	since        time.Time          // when the agent first heard of it
	// swapRoom is what it may yet swap, as of swapLooked.
	swapRoom   advise.Sample
	swapLooked time.Time
	containers map[string]*container
	// seen: its cgroup has been there; missing: for how many ticks it has not been since.
	seen    bool
	missing int
}

// cgroups are those of the pod's containers, in order.
func (p *pod) cgroups() []string {
	var out []string
	for _, id := range sortedKeys(p.containers) {
		if cgroup := p.containers[id].cgroup; cgroup != "" {
			out = append(out, cgroup)
		}
	}
	return out
}

// container is one that is being created, or runs.
type container struct {
	id, name, cgroup string
	pod              *pod
	exists           bool
	// score is the oom_score_adj that the kubelet gave it, and memoryLimit its limit in bytes; nil and 0: not known.
	score       *int
	memoryLimit int64
	user        *mps.User // the user it runs as; nil: not known
	// cpus and mems are what the runtime was last told.
	cpus, mems topology.CPUSet
	asked      allocate.Placement // what the update under way tells it
	failures   int                // updates that failed in a row, for this placement
}

// podTable are the pods of the node as the container runtime tells of them. A pod has one current sandbox; an older one of it may still stop later.
type podTable struct {
	byUID      map[string]*pod
	sandboxes  map[string]*pod       // by the sandbox's ID
	containers map[string]*container // by ID
	// changes counts pods that came or went.
	changes uint64
	// qosCgroups are the kubelet's cgroups of Burstable and of BestEffort pods; nil: no pod has come yet that tells where they are.
	qosCgroups []string
	now        func() time.Time
}

func newPodTable(now func() time.Time) *podTable {
	return &podTable{
		now: now, byUID: make(map[string]*pod), sandboxes: make(map[string]*pod), containers: make(map[string]*container),
	}
}

// clear forgets all pods, before the runtime tells anew what runs.
func (t *podTable) clear() {
	clear(t.byUID)
	clear(t.sandboxes)
	clear(t.containers)
}

// sorted are the pods by UID, so that what follows from them has a stable order.
func (t *podTable) sorted() []*pod {
	out := make([]*pod, 0, len(t.byUID))
	for _, uid := range sortedKeys(t.byUID) {
		out = append(out, t.byUID[uid])
	}
	return out
}

// remember files a pod's sandbox; an older one of the same pod no longer counts.
func (t *podTable) remember(s *Sandbox) *pod {
	p := t.byUID[s.UID]
	if p == nil {
		p = &pod{containers: make(map[string]*container), since: t.now()}
		t.byUID[s.UID] = p
		t.changes++
	}
	p.name, p.sandbox, p.cgroup, p.bestEffort = nameOf(s), s.ID, s.Cgroup, s.BestEffort
	p.priority, p.resources = priorityOf(s.Annotations), s.Annotations[spec.AnnotationResources]
	p.requestedCPU = s.Annotations[spec.AnnotationRequestedCPU]
	class, fault := spec.TrafficClassOf(s.Annotations)
	p.background, p.trafficFault = class == spec.TrafficBackground, fault
	p.labels, p.address = s.Labels, s.Address
	t.sandboxes[s.ID] = p
	if t.qosCgroups == nil {
		t.qosCgroups = enforce.QoSCgroups(s.Cgroup)
	}
	return p
}

// attach files a container of a known pod; nil: its sandbox is not known.
func (t *podTable) attach(c *Container) *container {
	p := t.sandboxes[c.Sandbox]
	if p == nil {
		return nil
	}
	out := &container{
		id: c.ID, name: c.Name, cgroup: c.Cgroup, pod: p, exists: c.Exists, cpus: c.CPUs, mems: c.Mems, score: c.OOMScoreAdj, memoryLimit: c.MemoryLimit,
		user: userOf(c),
	}
	if m, ok := ParseMark(c.Mark, c.ID); ok && m.Score != nil {
		out.score = m.Score // what the runtime says is the agent's own
	}
	t.containers[c.ID], p.containers[c.ID] = out, out
	return out
}

// forget removes a pod with its containers and its current sandbox.
func (t *podTable) forget(p *pod) {
	for id := range p.containers {
		delete(t.containers, id)
	}
	delete(t.sandboxes, p.sandbox)
	delete(t.byUID, p.name.UID)
	t.changes++
}

// removeContainer removes one container. False: it is not known.
func (t *podTable) removeContainer(id string) bool {
	c := t.containers[id]
	if c == nil {
		return false
	}
	delete(t.containers, id)
	delete(c.pod.containers, id)
	return true
}

// watched lists the cgroups that are worth observing: containers with their threads, and with the peaks of their memory where somebody wants these, and pods.
func (t *podTable) watched(peaks bool) (out []observe.Cgroup) {
	for _, p := range t.sorted() {
		if p.cgroup != "" {
			out = append(out, observe.Cgroup{ID: p.name.Namespace + "/" + p.name.Name, Dir: p.cgroup})
		}
		for _, id := range sortedKeys(p.containers) {
			if c := p.containers[id]; c.cgroup != "" {
				out = append(out, observe.Cgroup{ID: id, Dir: c.cgroup, Threads: true, Peak: peaks})
			}
		}
	}
	return out
}

func nameOf(s *Sandbox) spec.PodRef {
	return spec.PodRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
