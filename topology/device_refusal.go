package topology

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Cause is what keeps a request from a node's devices and NUMA nodes. There may be several; a Refusal names the first of them in the order here.
type Cause uint8

// The causes.
const (
	Fits              Cause = iota // nothing
	Contradictory                  // no node could ever
	NothingReported                // the node's agent says nothing of devices
	NotOurs                        // the GPUs are the kubelet's, or nobody's
	FewGPUs                        // it has fewer
	FewIdle                        // fewer can be given whole
	WeakIsolation                  // no GPU gives as much
	LittleCompute                  // on any one GPU
	LittleGPUMemory                // on any one GPU
	NoRoomForSlice                 // compute and memory are left, but not on one GPU, or its slices are as many as may be, of another isolation, or of another namespace
	FewCards                       // too few network cards serve
	NoNUMANodes                    // there are no NUMA nodes that hold the exclusive CPUs
	Apart                          // enough GPUs serve, but not in one domain
	NoCardsBeside                  // no domain has the cards beside the GPUs
	NoNUMABeside                   // no domain has the exclusive CPUs beside the devices
	FewResources                   // the NUMA nodes together have too little of what a plugin brings
	NoResourceNear                 // no domain has as much of what a plugin brings, beside the rest
	NoPlaces                       // nobody says where on the machine anything is that is asked for
	LargerThanMachine              // even empty, no domain would hold it
)

// Refusal is why a node's devices and NUMA nodes do not hold a request: a small value that String renders for people.
type Refusal struct {
	Cause       Cause
	Level       Level // that things would have to be near at
	Asked, Left int64
	Closed      int // devices that are closed
	Isolation   Isolation
	Owner       Owner
	NIC         NICRequest
	SharesCPUs  bool           // the CPUs that are asked for are shared ones
	Domains     [MaxGPUs]uint8 // Apart, FewIdle: GPUs that serve, by domain, the most first
	TooLarge    bool           // FewIdle: even empty, no domain would hold it
	Text        string         // Contradictory
	Resource    string         // FewResources, NoResourceNear; LargerThanMachine, where it is that
}

// Refusal says why Offer refuses. It costs more than Offer.
func (v *View) Refusal(r *Request, z *NUMARequest) Refusal {
	if text := r.Contradiction(z); text != "" {
		return Refusal{Cause: Contradictory, Text: text}
	}
	if _, ok := v.Offer(r, z); ok {
		return Refusal{}
	}
	d := v.Shape.Devices
	out := Refusal{Isolation: r.Isolation, NIC: r.NIC, Asked: int64(r.Count())}
	if d == nil && r.NeedsReport() {
		out.Cause = NothingReported
		return out
	}
	if d != nil {
		out.Owner, out.Closed = d.Owner, bits.OnesCount16(d.ClosedGPUs)
	}
	if r.Count() > 0 && v.refuseGPUs(r, z, &out) {
		return out
	}
	if have := bits.OnesCount16(v.cards(&r.NIC)); have < int(r.NIC.Count) {
		out.Cause, out.Asked, out.Left, out.Closed = FewCards, int64(r.NIC.Count), int64(have), bits.OnesCount16(d.ClosedNICs)
		return out
	}
	if _, ok := v.offerNUMA(z, 1<<MaxNUMANodes-1); !ok {
		out.Cause, out.Asked, out.SharesCPUs = NoNUMANodes, int64(z.CPUs), z.Binding == BoundShared
		return out
	}
	if !v.refuseResources(r, &out) {
		v.refuseNear(r, z, &out)
	}
	return out
}

// refuseGPUs reports whether GPUs alone are the cause.
func (v *View) refuseGPUs(r *Request, z *NUMARequest, out *Refusal) bool {
	d, count := v.Shape.Devices, v.Shape.count()
	switch {
	case d != nil && (d.Owner == OwnerNone || d.Owner == OwnerKubelet && r.Milli > 0):
		out.Cause = NotOurs
		return true
	case count < r.Count():
		out.Cause, out.Left = FewGPUs, int64(count)
		return true
	case r.Milli > 0:
		return v.refuseSlice(r, out)
	}
	idle := v.idle()
	if out.Left = int64(bits.OnesCount16(idle)); out.Left < out.Asked {
		out.Cause, out.Level = FewIdle, v.limit(r, z)
		if out.Level > Anywhere {
			out.Domains, out.TooLarge = v.spread(idle, out.Level), !v.couldHold(r, z, out.Level)
		}
		return true
	}
	if bits.OnesCount16(v.whole(r, idle)) >= r.Count() {
		return false
	}
	out.Cause, out.Asked, out.Left = LittleGPUMemory, int64(r.Memory), 0
	for left := idle; left != 0; left &= left - 1 {
		out.Left = max(out.Left, int64(d.GPU[bits.TrailingZeros16(left)].memory()))
	}
	return true
}

// refuseSlice reports whether no GPU holds the part that is asked for.
func (v *View) refuseSlice(r *Request, out *Refusal) bool {
	d := v.Shape.Devices
	var compute, memory int64
	strong := false
	for i := range v.Shape.count() {
		if _, ok := v.slice(r, i); ok {
			return false
		}
		if d == nil {
			strong = strong || v.Shape.Shareable
		} else if v.open(i) && d.GPU[i].gives(max(r.Isolation, Accounting)) {
			strong = true
			memory = max(memory, int64(v.Devices.Memory[i]))
		} else {
			continue
		}
		compute = max(compute, int64(v.Free[i]))
	}
	switch {
	case !strong:
		out.Cause = WeakIsolation
	case compute < int64(r.Milli):
		out.Cause, out.Asked, out.Left = LittleCompute, int64(r.Milli), compute
	case memory < int64(r.Memory):
		out.Cause, out.Asked, out.Left = LittleGPUMemory, int64(r.Memory), memory
	default:
		out.Cause = NoRoomForSlice
	}
	return true
}

// gives reports whether a GPU gives an isolation or a stronger one.
func (g *GPU) gives(least Isolation) bool {
	if len(g.Instances) > 0 {
		return g.Strengths.Has(Hard)
	}
	for i := least; i < Hard; i++ {
		if g.Strengths.Has(i) {
			return true
		}
	}
	return false
}

// refuseNear says what is missing in one domain of the level that is required.
func (v *View) refuseNear(r *Request, z *NUMARequest, out *Refusal) {
	out.Level = v.limit(r, z)
	s := search{v: v, r: r, z: z}
	if !s.prepare() {
		out.Cause = NoPlaces
		return
	}
	if out.Level == Anywhere {
		return
	}
	if s.want+s.cards == 0 {
		out.Level = min(out.Level, SameNUMA)
	}
	s.wide.fill(v, out.Level)
	cards := false
	served, few := 0, shortage{resource: -1, left: -1}
	for i := range s.wide.n {
		if bits.OnesCount16(s.wide.of[i].gpus&s.gpus) >= s.want {
			served++
			if bits.OnesCount16(s.wide.of[i].nics&s.nics) >= s.cards {
				cards = true
				few = v.fewest(&s.resources, s.wide.of[i].numaNodes, few)
			}
		}
	}
	out.Domains = v.spread(s.gpus, out.Level)
	out.Left = int64(bits.OnesCount16(s.gpus))
	switch {
	case !v.couldHold(r, z, out.Level):
		out.Cause = LargerThanMachine
		v.nameLarge(&s, out)
	case served == 0:
		out.Cause = Apart
	case !cards:
		out.Cause, out.Asked = NoCardsBeside, int64(s.cards)
	case few.resource >= 0:
		out.Cause, out.Asked, out.Left, out.Resource = NoResourceNear, s.resources[few.resource], few.left, v.Resources[few.resource].Name
	default:
		out.Cause, out.Asked, out.SharesCPUs = NoNUMABeside, int64(z.CPUs), z.Binding == BoundShared
	}
}

// spread is how many GPUs of a set are in each domain of a level, the most first.
func (v *View) spread(set uint16, level Level) (counts [MaxGPUs]uint8) {
	var in domains
	in.fill(v, level)
	for i := range in.n {
		counts[min(i, MaxGPUs-1)] += uint8(bits.OnesCount16(in.of[i].gpus & set))
	}
	slices.SortFunc(counts[:], func(a, b uint8) int { return int(b) - int(a) })
	return counts
}

// String says it in a short phrase, empty for Fits.
func (f Refusal) String() string {
	switch f.Cause {
	case Fits:
		return ""
	case Contradictory:
		return "contradictory: " + f.Text
	case NothingReported:
		return "its agent has said nothing of its devices"
	case NotOurs:
		if f.Owner == OwnerKubelet {
			return "its GPUs are the kubelet's, which gives whole ones alone"
		}
		return "nobody we know of gives out its GPUs"
	case FewGPUs:
		return fmt.Sprintf("it has %s, %d asked for", plural(f.Left, "GPU"), f.Asked)
	case FewIdle:
		return fmt.Sprintf("%s free, %d asked for%s%s", plural(f.Left, "whole GPU"), f.Asked, closedText(f.Closed), f.fewNear())
	case WeakIsolation:
		if f.Isolation == IsolationAny {
			return "its GPUs are not shared"
		}
		return fmt.Sprintf("no GPU gives %s isolation", f.Isolation)
	case LittleCompute:
		return fmt.Sprintf("compute %d/%d: most left on one GPU %d%s", f.Asked, FullGPU, f.Left, closedText(f.Closed))
	case LittleGPUMemory:
		return fmt.Sprintf("memory %s: most left on one GPU %s%s", mebibytes(f.Asked), mebibytes(f.Left), closedText(f.Closed))
	case NoRoomForSlice:
		return "no GPU has compute and memory left together, and slices that it can be added to: of its isolation, and soft ones of its namespace"
	default:
		return f.nearText()
	}
}

// cpus names the CPUs that are asked for.
func (f *Refusal) cpus() string {
	if f.SharesCPUs {
		return fmt.Sprintf("%d CPUs", f.Asked)
	}
	return fmt.Sprintf("%d exclusive CPUs", f.Asked)
}

// nearText is the rest of String: cards, NUMA nodes, and what would have to be near what.
func (f *Refusal) nearText() string {
	switch f.Cause {
	case FewCards:
		return fmt.Sprintf("%s left, %d asked for%s", plural(f.Left, "network card")+f.NIC.with(), f.Asked, closedText(f.Closed))
	case NoNUMANodes:
		return fmt.Sprintf("no NUMA nodes have %s and their memory left", f.cpus())
	case NoCardsBeside:
		beside := ""
		if f.Left > 0 {
			beside = " beside the free GPUs"
		}
		if f.Asked == 1 {
			return fmt.Sprintf("no network card%s left%s (one %s)", f.NIC.with(), beside, f.Level.word())
		}
		return fmt.Sprintf("no %d network cards%s left%s (one %s)", f.Asked, f.NIC.with(), beside, f.Level.word())
	case FewResources, NoResourceNear, NoPlaces:
		return f.resourceText()
	case NoNUMABeside:
		return fmt.Sprintf("no %s and their memory left in one %s with the rest", f.cpus(), f.Level.word())
	case LargerThanMachine:
		return f.tooLarge()
	default:
		return f.apartText()
	}
}

func (f *Refusal) apartText() string {
	if f.Owner != OwnerHilbert {
		return plural(f.Left, "GPU") + " free, but which ones a pod gets is not known, so they are not near one another"
	}
	where, _ := f.places()
	return fmt.Sprintf("%s free, but on %s", plural(f.Left, "GPU"), where)
}

// fewNear is what is to be said of nearness where too few GPUs are idle anyway.
func (f *Refusal) fewNear() string {
	switch where, domains := f.places(); {
	case f.TooLarge:
		return ", and " + f.tooLarge()
	case domains > 1 && f.Owner == OwnerHilbert:
		return ", the free ones on " + where
	}
	return ""
}

// places says how the GPUs that serve are spread: "2 PCIe switches: 5 + 3".
func (f *Refusal) places() (text string, domains int) {
	var parts []string
	for _, n := range f.Domains {
		if n > 0 {
			parts = append(parts, strconv.Itoa(int(n)))
		}
	}
	return plural(int64(len(parts)), f.Level.word()) + ": " + strings.Join(parts, " + "), len(parts)
}

func (f *Refusal) tooLarge() string {
	what := ""
	if f.Resource != "" {
		what = fmt.Sprintf(": the most of %[2]s in one is %[1]d, %[3]d asked for", f.Left, f.Resource, f.Asked)
	}
	return fmt.Sprintf("no %s of this machine could hold it, even an empty one%s", f.Level.word(), what)
}

// with is what of a network card is asked for.
func (r *NICRequest) with() string {
	var words []string
	if r.RDMA {
		words = append(words, "RDMA")
	}
	if r.Bandwidth > 0 {
		words = append(words, fmt.Sprintf("%d Mbit/s", r.Bandwidth))
	}
	if r.Function {
		words = append(words, "a virtual function")
	}
	if len(words) == 0 {
		return ""
	}
	return " with " + strings.Join(words, " and ")
}

// word is the level as people say it.
func (l Level) word() string {
	return [...]string{"machine", "socket", "NUMA node", "PCIe switch"}[l]
}

func plural(n int64, word string) string {
	switch {
	case n == 1:
		return "1 " + word
	case strings.HasSuffix(word, "ch"):
		return fmt.Sprintf("%d %ses", n, word)
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func closedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d closed)", n)
}

func mebibytes(n int64) string {
	if n > 0 && n%1024 == 0 {
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}
