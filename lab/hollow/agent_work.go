package hollow

import (
	"math"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Work is what the pods of a node want of its CPUs, and get.
type Work struct {
	OnlineWants, OnlineGets       float64 // CPUs
	ReclaimedWants, ReclaimedGets float64 // CPUs
	// Short is when online pods last got less than they want; zero: never. ShortFor is for how long they did, all told.
	Short    time.Time
	ShortFor time.Duration
}

// work is the load of a modelled node: each pod wants so many CPUs all the time, and shares those of its cpuset with others there by weight, as a
// fluid. What it does not get waits, on the CPUs that it may use. Between two changes all rates are constant, so that sums are exact. It belongs to a
// mapKernel and is guarded by its lock.
type work struct {
	machine *topology.Machine
	online  float64 // the share of their requests that online pods want
	blind   bool    // the kernel shows no counters
	began   time.Time
	at      time.Time // up to when all is summed
	known   bool      // the rates are those of now
	made    uint64    // cgroups so far
	pods    []*workPod
	cpus    []workCPU // by number
	now     Work
	co      *coNode // nil: the load is this fluid
}

// workCPU is a CPU: rates, and sums in seconds.
type workCPU struct{ runs, waits, busy, waited float64 }

// workPod is a pod: rates, and sums in seconds.
type workPod struct {
	cgroup, container string
	identity          uint64 // of the pod's cgroup; the container's is one more
	reclaimed, gone   bool
	asked             float64 // CPUs
	memory            int64   // bytes that it holds
	cpus              topology.CPUSet
	weight            float64

	sandbox *runtime.Sandbox // these two where the load is a Model's
	job     int64

	wants, gets, waits    float64
	used, waited, stalled float64
}

func newWork(m *topology.Machine, online float64, began time.Time) *work {
	w := &work{machine: m, online: online, began: began}
	w.at = w.began
	for i := range m.CPUs {
		if id := m.CPUs[i].ID; id >= len(w.cpus) {
			w.cpus = append(w.cpus, make([]workCPU, id+1-len(w.cpus))...)
		}
	}
	return w
}

// A reclaimed pod touches this part of its memory. An idle pod weighs next to nothing, one without a weight what the kernel gives it.
const (
	touched       = 0.5
	idleWeight    = 0.3
	defaultWeight = 100
	milli         = 1000
)

func (w *work) add(s *runtime.Sandbox, c *runtime.Container) {
	p := &workPod{cgroup: s.Cgroup, container: c.Cgroup, identity: w.made + 1, memory: s.Amounts.MemoryLimit, asked: float64(s.Amounts.MilliCPU) / milli}
	w.made += 2
	if qos, _ := spec.QoSOf(s.Labels, s.Annotations); qos.Level == spec.QoSReclaimed {
		amounts, _ := spec.ParseReclaimed(s.Annotations[spec.AnnotationReclaimed]) // without it, it asked for nothing
		p.reclaimed, p.asked = true, float64(amounts.MilliCPU)/milli
		p.memory = int64(float64(amounts.MemoryMiB) * touched * topology.Mebibyte)
	}
	if w.co != nil {
		w.co.add(p, s)
	}
	w.pods = append(w.pods, p)
}

func (w *work) remove(cgroup string) {
	kept := w.pods[:0]
	services := 0
	for _, p := range w.pods {
		if p.gone = p.cgroup == cgroup; !p.gone {
			kept = append(kept, p)
			if !p.reclaimed {
				services++
			}
		} else if w.co != nil {
			w.co.remove(p, services)
		}
	}
	clear(w.pods[len(kept):])
	w.pods = kept
}

// pass lets time pass up to now, at the rates that follow from what the kernel's files say.
func (w *work) pass(now time.Time, files map[string]string) {
	for w.co != nil && now.Sub(w.at) >= time.Second {
		w.read(files)
		w.co.step(w, w.at.Add(time.Second))
		w.sum(w.at.Add(time.Second))
	}
	if w.co != nil {
		return
	}
	if !w.known {
		w.read(files)
		w.share()
		w.known = true
	}
	if now.After(w.at) {
		w.sum(now)
	}
}

// sum lets time pass at the rates as they are.
func (w *work) sum(now time.Time) {
	passed := now.Sub(w.at)
	w.at = now
	seconds := passed.Seconds()
	for i := range w.cpus {
		w.cpus[i].busy += w.cpus[i].runs * seconds
		w.cpus[i].waited += w.cpus[i].waits * seconds
	}
	for _, p := range w.pods {
		p.used += p.gets * seconds
		p.waited += p.waits * seconds
		p.stalled += (1 - math.Exp(-p.waits)) * seconds // at least one thread waits, if they come and go by chance
	}
	if w.now.OnlineGets < w.now.OnlineWants*enough {
		w.now.Short = now
		w.now.ShortFor += passed
	}
}

// enough of what they want is all, but for rounding.
const enough = 0.999

// read takes over what pods want and where they may run.
func (w *work) read(files map[string]string) {
	var all topology.CPUSet
	for i := range w.machine.CPUs {
		all.Add(w.machine.CPUs[i].ID)
	}
	for _, p := range w.pods {
		if p.wants = p.asked; !p.reclaimed && w.co == nil {
			p.wants *= w.online
		}
		p.cpus, _ = topology.ParseCPUSet(files[p.container+"/"+enforce.CPUSet])
		if p.cpus.IsEmpty() {
			p.cpus = all
		}
		p.weight = max(p.asked, 1/float64(milli)) * defaultWeight
		if p.reclaimed && files[p.cgroup+"/"+enforce.CPUIdle] == "1" {
			p.weight = idleWeight
		}
	}
}

// part is the CPUs that the same pods may use.
type part struct {
	cpus  []int
	pods  []int
	room  float64 // CPUs that are not in use yet
	waits float64
}

// maxPods is how many pods a node may have in the model.
const maxPods = 256

// parts divides the CPUs by who may use them.
func (w *work) parts() []*part {
	var out []*part
	known := make(map[[maxPods]bool]*part)
	for i := range w.machine.CPUs {
		id := w.machine.CPUs[i].ID
		var who [maxPods]bool
		var pods []int
		for j, p := range w.pods {
			if j < maxPods && p.cpus.Has(id) {
				who[j] = true
				pods = append(pods, j)
			}
		}
		if known[who] == nil {
			known[who] = &part{pods: pods}
			out = append(out, known[who])
		}
		known[who].cpus = append(known[who].cpus, id)
		known[who].room++
	}
	return out
}

// rounds are how often what a pod did not get in one part is looked for in the others.
const rounds = 4

// share finds out what everybody gets.
func (w *work) share() {
	parts := w.parts()
	for _, p := range w.pods {
		p.gets = 0
	}
	for range rounds {
		room := make([]float64, len(w.pods)) // that each pod sees
		for _, c := range parts {
			for _, j := range c.pods {
				room[j] += c.room
			}
		}
		offers := make([][]float64, len(parts))
		for i, c := range parts {
			for _, j := range c.pods {
				offer := 0.0
				if room[j] > 0 {
					offer = (w.pods[j].wants - w.pods[j].gets) * c.room / room[j]
				}
				offers[i] = append(offers[i], offer)
			}
		}
		for i, c := range parts {
			w.fill(c, offers[i])
		}
	}
	w.settle(parts)
}

// fill gives the room of a part to those who may use it, by weight, but to none more than it offers to use.
func (w *work) fill(c *part, offers []float64) {
	left := make([]float64, len(offers))
	copy(left, offers)
	for range offers {
		weights, sum := 0.0, 0.0
		for i, j := range c.pods {
			if left[i] > 0 {
				weights, sum = weights+w.pods[j].weight, sum+left[i]
			}
		}
		if sum == 0 || c.room <= 0 {
			return
		}
		room := c.room
		for i, j := range c.pods {
			if left[i] > 0 {
				got := min(left[i], room*w.pods[j].weight/weights)
				left[i] -= got
				c.room -= got
				w.pods[j].gets += got
			}
		}
		if c.room < 1e-9 {
			c.room = 0
		}
	}
}

// settle spreads what waits over the CPUs where it may run, and sums up.
func (w *work) settle(parts []*part) {
	now := Work{Short: w.now.Short, ShortFor: w.now.ShortFor}
	for _, p := range w.pods {
		p.waits = p.wants - p.gets
		if p.reclaimed {
			now.ReclaimedWants, now.ReclaimedGets = now.ReclaimedWants+p.wants, now.ReclaimedGets+p.gets
		} else {
			now.OnlineWants, now.OnlineGets = now.OnlineWants+p.wants, now.OnlineGets+p.gets
		}
	}
	w.now = now
	for _, c := range parts {
		for _, j := range c.pods {
			p := w.pods[j]
			c.waits += max(0, p.wants-p.gets) * float64(len(c.cpus)) / float64(p.cpus.Len())
		}
		size := float64(len(c.cpus))
		for _, id := range c.cpus {
			w.cpus[id].runs, w.cpus[id].waits = (size-c.room)/size, c.waits/size
		}
	}
}

// held is what pods hold of each NUMA node's memory, in bytes.
func (w *work) held() (sum int64) {
	for _, p := range w.pods {
		sum += p.memory
	}
	return sum / int64(len(w.machine.NUMA))
}
