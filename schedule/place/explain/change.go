package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// ChangeKind is what a Change changes. The kinds are in order of preference: first what comes about by itself as pods end, then what the
// pod's owner can do, then what the nodes' owner can, then what costs others, and last what needs a larger machine.
type ChangeKind uint8

// The kinds of changes.
const (
	Free     ChangeKind = iota // more of one resource free on a node that is large enough
	Tolerate                   // one taint tolerated
	Loosen                     // the maxSkew of one spread constraint raised
	Widen                      // devices and exclusive CPUs less near each other
	Reduce                     // fewer GPUs asked for, or less of one
	Uncordon                   // the node schedulable
	Relabel                    // one label of the node set or taken away
	Leave                      // pods of lower or equal priority gone from the node
	Grow                       // the node larger by some of one resource
)

const changeKinds = int(Grow) + 1

func (k ChangeKind) String() string {
	return [...]string{"free", "tolerate", "loosen", "widen", "reduce", "uncordon", "relabel", "leave", "grow"}[k]
}

// MarshalText writes the kind's name.
func (k ChangeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads it.
func (k *ChangeKind) UnmarshalText(text []byte) error {
	for *k = 0; *k <= Grow; *k++ {
		if k.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("%q is no kind of change", text)
}

// Change is one change after which the pod fits on a node.
type Change struct {
	Kind ChangeKind `json:"kind"`
	Node string     `json:"node"`
	// Resource and Amount, in millicores, bytes or a count: Free and Grow. Of GPUs it is a count, thousandths of compute, or MiB; with Reduce
	// the amount is what may be asked for instead of Asked.
	Resource string `json:"resource,omitempty"`
	Amount   int64  `json:"amount,omitempty"`
	Asked    int64  `json:"asked,omitempty"`
	// GPUs are those that would come free, or the one of which more would: Free.
	GPUs []int `json:"gpus,omitempty"`
	// Near is a level as hilbert.dev/near has it, empty for anywhere: with Free the one at which enough GPUs would be near each other, with Widen the
	// one that would do instead of NearAsked.
	Near      string `json:"near,omitempty"`
	NearAsked string `json:"nearAsked,omitempty"`
	Taint     *Taint `json:"taint,omitempty"`  // Tolerate
	Spread    *Skew  `json:"spread,omitempty"` // Loosen
	Label     *Label `json:"label,omitempty"`  // Relabel
	Pods      []Pod  `json:"pods,omitempty"`   // Leave, the most important first

	cost int64 // among changes of its kind
}

// Taint is a taint as Kubernetes spells it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Skew is what a spread constraint allows and would have to allow.
type Skew struct {
	Constraint  int    `json:"constraint"` // its index among the pod's DoNotSchedule constraints
	TopologyKey string `json:"topologyKey"`
	MaxSkew     int32  `json:"maxSkew"`
	Needed      int32  `json:"needed"`
}

// Label is a label to be set, or (Absent) to be taken away.
type Label struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

func (l *Label) apply(n *facts.Node) {
	if l.Absent {
		delete(n.Labels, l.Key)
		return
	}
	if n.Labels == nil {
		n.Labels = make(map[string]string)
	}
	n.Labels[l.Key] = l.Value
}

// Pod names a pod.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       facts.UID `json:"uid"`
	Priority  int32     `json:"priority"`
}

// String continues a sentence that ends in "with": "1 more cpu free on n1".
func (c Change) String() string {
	switch c.Kind {
	case Free:
		switch {
		case len(c.GPUs) > 0:
			return c.freeGPUs()
		case c.Resource == exclusiveCPUs || c.Resource == sharedCPUs:
			return amountMore(c.Resource, c.Amount) + " free in one NUMA node of " + c.Node
		}
		return amountMore(c.Resource, c.Amount) + " free on " + c.Node
	case Grow:
		return c.Node + " larger by " + amountOf(c.Resource, c.Amount)
	case Tolerate:
		text := c.Taint.Key
		if c.Taint.Value != "" {
			text += "=" + c.Taint.Value
		}
		return "the taint " + text + ":" + c.Taint.Effect + " tolerated, on " + c.Node
	case Loosen:
		return fmt.Sprintf("maxSkew %d instead of %d over %s, on %s", c.Spread.Needed, c.Spread.MaxSkew, c.Spread.TopologyKey, c.Node)
	case Widen:
		return c.widened()
	case Reduce:
		return gpuAmount(c.Resource, c.Amount) + " asked for instead of " + gpuAmount(c.Resource, c.Asked) + ", on " + c.Node
	case Uncordon:
		return c.Node + " uncordoned"
	case Relabel:
		if c.Label.Absent {
			return "the label " + c.Label.Key + " gone from " + c.Node
		}
		return "the label " + c.Label.Key + "=" + c.Label.Value + " on " + c.Node
	case Leave:
		return podNames(c.Pods) + " gone from " + c.Node
	}
	return c.Kind.String()
}

// MarshalJSON adds the words to the fields.
func (c Change) MarshalJSON() ([]byte, error) {
	type fields Change
	return json.Marshal(struct {
		What string `json:"what"`
		fields
	}{c.String(), fields(c)})
}

// maxNamed is how many pods a text names before it only counts.
const maxNamed = 3

// changes keeps the smallest change of each kind.
type changes [changeKinds]*Change

func (c *changes) offer(x Change) {
	old := c[x.Kind]
	if old == nil || cmp.Or(cmp.Compare(x.cost, old.cost), strings.Compare(x.Node, old.Node)) < 0 {
		c[x.Kind] = &x
	}
}

func (c *changes) list() []Change {
	var list []Change
	for _, change := range c {
		if change != nil {
			list = append(list, *change)
		}
	}
	return list
}

// For is Explain for a pod of that priority, which besides says which pods would have to leave to make room for it. The store must be at the
// placer's snapshot's revision. It costs time proportional to the pods.
func For(s *cluster.State, store *cluster.Store, c *cluster.Class, priority int32) Explanation {
	e := Explain(s, c)
	if e.Feasible > 0 {
		return e
	}
	if leave, ok := leave(s, store, c, priority); ok {
		at, _ := slices.BinarySearchFunc(e.Changes, Leave, func(c Change, k ChangeKind) int { return cmp.Compare(c.Kind, k) })
		e.Changes = slices.Insert(e.Changes, at, leave)
	}
	return e
}

// leave finds the node on which the fewest pods of lower or equal priority would have to go.
func leave(s *cluster.State, store *cluster.Store, c *cluster.Class, priority int32) (best Change, ok bool) {
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil || !helpedByLeaving(s, slot, c) || (!c.GPU.IsZero() || !c.NUMANodes.IsZero()) && holdsUnknown(store, slot) {
			continue
		}
		whole := leavers(s, slot, c, store.PodsOn(slot), priority)
		if whole == nil {
			continue
		}
		change := Change{Kind: Leave, Node: s.Node(slot).Name, cost: int64(whole[0].Priority)}
		for _, pod := range whole {
			change.Pods = append(change.Pods, Pod{pod.Namespace, pod.Name, pod.UID, pod.Priority})
		}
		if !ok || cmp.Or(cmp.Compare(len(change.Pods), len(best.Pods)), cmp.Compare(change.cost, best.cost), strings.Compare(change.Node, best.Node)) < 0 {
			best, ok = change, true
		}
	}
	return best, ok
}

// helpedByLeaving reports whether pods leaving the node could be of help: what refuses the pod is about pods, and the node is large enough.
func helpedByLeaving(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for i := range rules.Filters {
		if !obstacleRules[i].leaving && !rules.Filters[i].Fits(s, slot, c) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Amounts, func(a resource.Amount) bool { return a.Value > s.Allocatable(slot, a.Kind) && s.Lacks(slot, c, a) })
}

// holdsUnknown reports whether it is unknown which GPUs or NUMA nodes some pods on the node hold. Then it is unknown too what is free when some have left.
func holdsUnknown(store *cluster.Store, slot cluster.Slot) bool {
	return slices.ContainsFunc(store.PodsOn(slot), (*cluster.Pod).Guessed)
}

// leavers are those of the pods on the node, of that priority at most, without which the class fits, the most important first; nil if there
// are none. One is looked for by itself; several by taking the least important first and giving back those that were not needed.
func leavers(s *cluster.State, slot cluster.Slot, c *cluster.Class, pods []*cluster.Pod, priority int32) []*cluster.Pod {
	var list []*cluster.Pod
	for _, pod := range pods {
		if pod.Priority <= priority {
			list = append(list, pod)
		}
	}
	slices.SortFunc(list, cluster.MoreImportant)
	slices.Reverse(list)
	trial := s.Try(slot, true)
	defer trial.End()
	var off []*cluster.Pod
	for _, pod := range list {
		trial.Take(pod)
		alone := rules.Fits(s, slot, c)
		trial.Return(pod)
		if alone {
			return []*cluster.Pod{pod}
		}
	}
	fits := false
	for _, pod := range list {
		trial.Take(pod)
		off = append(off, pod)
		if fits = rules.Fits(s, slot, c); fits {
			break
		}
	}
	if !fits {
		return nil
	}
	var needed []*cluster.Pod
	for _, pod := range slices.Backward(off) { // the most important first
		trial.Return(pod)
		if !rules.Fits(s, slot, c) {
			trial.Take(pod)
			needed = append(needed, pod)
		}
	}
	return needed
}

// rounding says to which side an amount is rounded for people, so that what they read is never too little of what is asked.
type rounding bool

const (
	up   rounding = true
	down rounding = false
)

// amountOf renders an amount with its resource: "2 cpu", "1.5Gi memory".
func amountOf(name string, value int64) string {
	return amountText(name, value, up) + " " + name
}

func amountMore(name string, value int64) string {
	return amountText(name, value, up) + " more " + name
}

// amountText renders an amount as Kubernetes writes them: cores or millicores, bytes in binary units, counts.
func amountText(name string, value int64, r rounding) string {
	switch {
	case (name == resource.NameCPU || name == facts.PromisedCPU) && value%1000 != 0:
		return strconv.FormatInt(value, 10) + "m"
	case name == resource.NameCPU || name == facts.PromisedCPU:
		return strconv.FormatInt(value/1000, 10)
	case name == resource.NameMemory || name == spec.ResourceReclaimedMemory || name == resource.NameEphemeralStorage || strings.HasPrefix(name, "hugepages-"):
		return bytesText(value, r)
	}
	return strconv.FormatInt(value, 10)
}

// bytesText renders bytes in the largest unit that there is one of, to a tenth.
func bytesText(value int64, r rounding) string {
	if value < 0 {
		return "-" + bytesText(-value, !r)
	}
	unit, suffix := int64(1), ""
	for _, u := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if value < unit<<10 {
			break
		}
		unit, suffix = unit<<10, u
	}
	whole, rest := value/unit, value%unit
	tenths := rest * 10 / unit
	if r == up && rest*10%unit > 0 {
		tenths++
	}
	whole, tenths = whole+tenths/10, tenths%10
	if tenths == 0 {
		return strconv.FormatInt(whole, 10) + suffix
	}
	return fmt.Sprintf("%d.%d%s", whole, tenths, suffix)
}

// AmountText renders an amount of a resource as people read it: "2 cpu", "1.5Gi memory", "8 GPU". Thousandths of GPUs are counted in GPUs.
func AmountText(name string, value int64) string {
	if name == spec.ResourceGPUMilli {
		return strconv.FormatFloat(float64(value)/topology.FullGPU, 'f', -1, 64) + " GPU"
	}
	return amountOf(name, value)
}
