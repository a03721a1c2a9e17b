package pods

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Pod is a pod that has been admitted.
type Pod struct {
	Ref        spec.PodRef
	Sandbox    string // the newest one
	Cgroup     string
	BestEffort bool
	// Priority is as its Binding says; nil: Hilbert has not bound it.
	Priority *int32
	// Resources is what its Binding says of plugins' resources.
	Resources string
	// Background: its traffic is the least important; TrafficFault is what is wrong with what it says of that.
	Background   bool
	TrafficFault error
	// RequestedCPU says what it asked for before its requests were lowered.
	RequestedCPU string
	Labels       map[string]string
	Address      string             // its IP; empty: it has none of its own
	Profile      *spec.NamedProfile // nil: none selects it
	Conflict     string             // the last conflict of profiles that was told
	Since        time.Time          // when the agent first heard of it
	// SwapRoom is what it may yet swap, as of SwapLooked.
	SwapRoom   advise.Sample
	SwapLooked time.Time
	Containers map[string]*Container
	// Seen: its cgroup has been there; Missing: for how many ticks it has not been since.
	Seen    bool
	Missing int
}

// Cgroups are those of the pod's containers, in order.
func (p *Pod) Cgroups() []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(p.Containers)) {
		if cgroup := p.Containers[id].Cgroup; cgroup != "" {
			out = append(out, cgroup)
		}
	}
	return out
}

// Container is one that is being created, or runs.
type Container struct {
	ID, Name, Cgroup string
	Pod              *Pod
	Exists           bool
	// Score is the oom_score_adj that the kubelet gave it, and MemoryLimit its limit in bytes; nil and 0: not known.
	Score       *int
	MemoryLimit int64
	User        *mps.User // the user it runs as; nil: not known
	// CPUs and Mems are what the runtime was last told.
	CPUs, Mems topology.CPUSet
	Asked      allocate.Placement // what the update under way tells it
	Failures   int                // updates that failed in a row, for this placement
}

// Table are the pods of the node as the container runtime tells of them. A pod has one current sandbox; an older one of it may still stop later.
type Table struct {
	byUID      map[string]*Pod
	sandboxes  map[string]*Pod       // by the sandbox's ID
	containers map[string]*Container // by ID
	// changes counts pods that came or went.
	changes uint64
	// qosCgroups are the kubelet's cgroups of Burstable and of BestEffort pods; nil: no pod has come yet that tells where they are.
	qosCgroups []string
	now        func() time.Time
}

// NewTable returns one without pods.
func NewTable(now func() time.Time) *Table {
	return &Table{
		now: now, byUID: make(map[string]*Pod), sandboxes: make(map[string]*Pod), containers: make(map[string]*Container),
	}
}

// Clear forgets all pods, before the runtime tells anew what runs.
func (t *Table) Clear() {
	clear(t.byUID)
	clear(t.sandboxes)
	clear(t.containers)
}

// Of is the pod of a UID; nil: it is not here.
func (t *Table) Of(uid string) *Pod { return t.byUID[uid] }

// OfSandbox is the pod that a sandbox is of; nil: it is not known.
func (t *Table) OfSandbox(id string) *Pod { return t.sandboxes[id] }

// Container is one of any pod by its ID; nil: it is not known.
func (t *Table) Container(id string) *Container { return t.containers[id] }

// Len is how many pods there are.
func (t *Table) Len() int { return len(t.byUID) }

// ContainerCount is how many containers there are.
func (t *Table) ContainerCount() int { return len(t.containers) }

// All are the pods by UID, in no order.
func (t *Table) All() iter.Seq2[string, *Pod] { return maps.All(t.byUID) }

// AllContainers are the containers by ID, in no order.
func (t *Table) AllContainers() iter.Seq2[string, *Container] { return maps.All(t.containers) }

// ContainerIDs are their IDs, sorted.
func (t *Table) ContainerIDs() []string { return slices.Sorted(maps.Keys(t.containers)) }

// Revision grows whenever a pod comes or goes.
func (t *Table) Revision() uint64 { return t.changes }

// QoSClasses are the kubelet's cgroups of Burstable and of BestEffort pods; nil: no pod has come yet that tells where they are.
func (t *Table) QoSClasses() []string { return t.qosCgroups }

// DropSandbox forgets a sandbox, and not the pod.
func (t *Table) DropSandbox(id string) { delete(t.sandboxes, id) }

// Sorted are the pods by UID, so that what follows from them has a stable order.
func (t *Table) Sorted() []*Pod {
	out := make([]*Pod, 0, len(t.byUID))
	for _, uid := range slices.Sorted(maps.Keys(t.byUID)) {
		out = append(out, t.byUID[uid])
	}
	return out
}

// Remember files a pod's sandbox; an older one of the same pod no longer counts.
func (t *Table) Remember(s *runtime.Sandbox) *Pod {
	p := t.byUID[s.UID]
	if p == nil {
		p = &Pod{Containers: make(map[string]*Container), Since: t.now()}
		t.byUID[s.UID] = p
		t.changes++
	}
	p.Ref, p.Sandbox, p.Cgroup, p.BestEffort = s.Ref(), s.ID, s.Cgroup, s.BestEffort
	p.Priority, p.Resources = priorityOf(s.Annotations), s.Annotations[spec.AnnotationResources]
	p.RequestedCPU = s.Annotations[spec.AnnotationRequestedCPU]
	class, fault := spec.TrafficClassOf(s.Annotations)
	p.Background, p.TrafficFault = class == spec.TrafficBackground, fault
	p.Labels, p.Address = s.Labels, s.Address
	t.sandboxes[s.ID] = p
	if t.qosCgroups == nil {
		t.qosCgroups = enforce.QoSCgroups(s.Cgroup)
	}
	return p
}

// Attach files a container of a known pod; nil: its sandbox is not known.
func (t *Table) Attach(c *runtime.Container) *Container {
	p := t.sandboxes[c.Sandbox]
	if p == nil {
		return nil
	}
	out := &Container{
		ID: c.ID, Name: c.Name, Cgroup: c.Cgroup, Pod: p, Exists: c.Exists, CPUs: c.CPUs, Mems: c.Mems, Score: c.OOMScoreAdj, MemoryLimit: c.MemoryLimit,
		User: UserOf(c),
	}
	if m, ok := runtime.ParseMark(c.Mark, c.ID); ok && m.Score != nil {
		out.Score = m.Score // what the runtime says is the agent's own
	}
	t.containers[c.ID], p.Containers[c.ID] = out, out
	return out
}

// Forget removes a pod with its containers and its current sandbox.
func (t *Table) Forget(p *Pod) {
	for id := range p.Containers {
		delete(t.containers, id)
	}
	delete(t.sandboxes, p.Sandbox)
	delete(t.byUID, p.Ref.UID)
	t.changes++
}

// RemoveContainer removes one container. False: it is not known.
func (t *Table) RemoveContainer(id string) bool {
	c := t.containers[id]
	if c == nil {
		return false
	}
	delete(t.containers, id)
	delete(c.Pod.Containers, id)
	return true
}

// Watched lists the cgroups that are worth observing: containers with their threads, and with the peaks of their memory where somebody wants these, and pods.
func (t *Table) Watched(peaks bool) (out []observe.Cgroup) {
	for _, p := range t.Sorted() {
		if p.Cgroup != "" {
			out = append(out, observe.Cgroup{ID: p.Ref.Namespace + "/" + p.Ref.Name, Dir: p.Cgroup})
		}
		for _, id := range slices.Sorted(maps.Keys(p.Containers)) {
			if c := p.Containers[id]; c.Cgroup != "" {
				out = append(out, observe.Cgroup{ID: id, Dir: c.Cgroup, Threads: true, Peak: peaks})
			}
		}
	}
	return out
}

// UserOf is the user that a container runs as; nil: the runtime does not say.
func UserOf(c *runtime.Container) *mps.User {
	if c.User == nil {
		return nil
	}
	return &mps.User{ID: *c.User, Mapped: c.UserNamespace}
}

// LevelOf is the level that a pod is treated as: a reclaimed one that runs in no reclaimed pool was not treated as it asked, so it does not go as it asked either.
func LevelOf(asked *allocate.Pod, pool string) spec.QoSLevel {
	if asked.QoS.Level == spec.QoSReclaimed && pool != spec.PoolReclaimed {
		return spec.QoSShared
	}
	return asked.QoS.Level
}

// priorityOf reads what the Binding says of a pod's priority; nil: nothing that can be read.
func priorityOf(annotations map[string]string) *int32 {
	n, err := strconv.ParseInt(annotations[spec.AnnotationPriority], 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(n))
}

// PriorityOrZero is the priority for orders in which a pod must have some place.
func (p *Pod) PriorityOrZero() int32 {
	if p.Priority == nil {
		return 0
	}
	return *p.Priority
}
