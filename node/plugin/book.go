package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/hint"
	"hilbert.dev/hilbert/topology"
)

// MaxAmount bounds amounts, so that no sum overflows.
const MaxAmount = topology.MaxResourceAmount

// Request is what a pod asks for of one resource.
type Request struct {
	Pod      spec.PodRef
	Resource string
	// Amount is what the pod needs as a whole, Containers what each of its containers asks for.
	Amount     int64
	Containers []spec.ContainerAmount
}

// Holding is what a pod holds of one resource.
type Holding struct {
	Pod      spec.PodRef      `json:"pod"`
	Resource string           `json:"resource"`
	Amounts  topology.Amounts `json:"amounts"`
	IDs      []string         `json:"ids,omitempty"`
	// Containers is what each container gets, by name.
	Containers map[string]Contribution `json:"containers,omitempty"`
}

// Where says that it stays where it is: one hint, or none where it is near no NUMA node.
func (h *Holding) Where() []hint.Hint {
	if set := h.Amounts.NUMANodes(); set != 0 {
		return []hint.Hint{{NUMANodes: set, Preferred: true}}
	}
	return nil
}

// Contribution is what a container gets before it starts.
type Contribution struct {
	Env         []string          `json:"env,omitempty"` // NAME=value, sorted
	Devices     []Device          `json:"devices,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Device is a device file that the container may read and write.
type Device struct {
	Path  string `json:"path"`
	Type  string `json:"type"` // c or b
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

// Mount is a directory or file of the host.
type Mount struct {
	Source   string `json:"source"`
	Place    string `json:"place"`
	Writable bool   `json:"writable,omitempty"`
}

// Errors of the book.
var (
	// ErrLie: a plugin said what cannot be.
	ErrLie = errors.New("the plugin's answer cannot be true")
	// ErrNoRoom: there is not enough left.
	ErrNoRoom = errors.New("not enough is left")
)

// Book records what there is of plugins' resources, and who holds it. It is not safe for concurrent use.
type Book struct {
	capacity map[string]topology.Amounts    // by resource
	held     map[string]map[string]*Holding // by pod's UID, then resource
}

// NewBook returns a book without resources.
func NewBook() *Book {
	return &Book{capacity: make(map[string]topology.Amounts), held: make(map[string]map[string]*Holding)}
}

// Offer records what a machine has of a resource. It may be less than what pods hold: then nothing more is given.
func (b *Book) Offer(resource string, a topology.Amounts) { b.capacity[resource] = a }

// Capacity is what was offered last. False: never.
func (b *Book) Capacity(resource string) (topology.Amounts, bool) {
	a, ok := b.capacity[resource]
	return a, ok
}

// Free is what nobody holds. It may be negative where a plugin offers less than before.
func (b *Book) Free(resource string) topology.Amounts {
	free := b.capacity[resource]
	for _, of := range b.held {
		if h := of[resource]; h != nil {
			free.Subtract(&h.Amounts)
		}
	}
	return free
}

// Hints are the sets of NUMA nodes that have what is asked for, the smallest preferred; of a resource that has enough near no NUMA node, none. ok is false when the
// machine does not have it.
func (b *Book) Hints(r *Request) (hints []hint.Hint, ok bool) {
	free := b.Free(r.Resource)
	if max(free.Far, 0) >= r.Amount {
		return nil, true
	}
	fewest := 0
	for set := 1; set <= 0xff; set++ {
		if set&^int(free.NUMANodes()) != 0 || free.Within(uint8(set)) < r.Amount {
			continue
		}
		if n := bits.OnesCount(uint(set)); fewest == 0 || n < fewest {
			fewest = n
		}
		hints = append(hints, hint.Hint{NUMANodes: uint8(set)})
	}
	for i := range hints {
		hints[i].Preferred = bits.OnesCount8(hints[i].NUMANodes) == fewest
	}
	return hints, len(hints) > 0
}

// Judge keeps those of a plugin's hints that the book can serve. A set that has not enough is left out: the plugin may not have heard yet of what was given last.
func (b *Book) Judge(r *Request, hints []hint.Hint) (kept []hint.Hint, err error) {
	free := b.Free(r.Resource)
	for _, h := range hints {
		if free.Within(h.NUMANodes) >= r.Amount {
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s: %d asked for: %w", r.Resource, r.Amount, ErrNoRoom)
	}
	return kept, nil
}

// Take records what a plugin has allocated from a set of NUMA nodes (0: from any). The error says why it cannot be, and nothing is recorded then.
func (b *Book) Take(r *Request, set uint8, h *Holding) error {
	if known := b.held[r.Pod.UID][r.Resource]; known != nil {
		return fmt.Errorf("%s: pod %s holds it already", r.Resource, r.Pod)
	}
	if sum := h.Amounts.Sum(); sum != r.Amount {
		return fmt.Errorf("%s: allocated %d, asked for were %d: %w", r.Resource, sum, r.Amount, ErrLie)
	}
	if outside := h.Amounts.NUMANodes() &^ set; set != 0 && outside != 0 {
		return fmt.Errorf("%s: allocated from NUMA nodes %08b, chosen were %08b: %w", r.Resource, h.Amounts.NUMANodes(), set, ErrLie)
	}
	free := b.Free(r.Resource)
	free.Subtract(&h.Amounts)
	for i, n := range free.NUMA {
		if n < 0 && h.Amounts.NUMA[i] > 0 {
			return fmt.Errorf("%s: NUMA node %d has %d fewer than allocated: %w", r.Resource, i, -n, ErrLie)
		}
	}
	if free.Far < 0 && h.Amounts.Far > 0 {
		return fmt.Errorf("%s: %d fewer than allocated are near no NUMA node: %w", r.Resource, -free.Far, ErrLie)
	}
	if other, id := b.holder(r.Resource, h.IDs); other != nil {
		return fmt.Errorf("%s: %q is held by pod %s: %w", r.Resource, id, other.Pod, ErrLie)
	}
	for name := range h.Containers {
		if !slices.ContainsFunc(r.Containers, func(c spec.ContainerAmount) bool { return c.Container == name }) {
			return fmt.Errorf("%s: container %q has not asked for it: %w", r.Resource, name, ErrLie)
		}
	}
	b.keep(h)
	return nil
}

func (b *Book) keep(h *Holding) {
	if b.held[h.Pod.UID] == nil {
		b.held[h.Pod.UID] = make(map[string]*Holding)
	}
	b.held[h.Pod.UID][h.Resource] = h
}

// holder is who has one of the plugin's names.
func (b *Book) holder(resource string, ids []string) (*Holding, string) {
	for _, of := range b.held {
		if h := of[resource]; h != nil {
			for _, id := range ids {
				if slices.Contains(h.IDs, id) {
					return h, id
				}
			}
		}
	}
	return nil, ""
}

// Holds is what a pod holds of a resource; nil: nothing.
func (b *Book) Holds(uid, resource string) *Holding { return b.held[uid][resource] }

// Drop forgets what a pod holds of a resource.
func (b *Book) Drop(uid, resource string) {
	delete(b.held[uid], resource)
	if len(b.held[uid]) == 0 {
		delete(b.held, uid)
	}
}

// Of lists what all pods hold of a resource, by UID.
func (b *Book) Of(resource string) (out []*Holding) {
	for _, uid := range slices.Sorted(maps.Keys(b.held)) {
		if h := b.held[uid][resource]; h != nil {
			out = append(out, h)
		}
	}
	return out
}

// All lists what all pods hold, by UID and resource.
func (b *Book) All() (out []*Holding) {
	for _, of := range b.held {
		for _, h := range of {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(x, y *Holding) int {
		return cmp.Or(cmp.Compare(x.Pod.UID, y.Pod.UID), cmp.Compare(x.Resource, y.Resource))
	})
	return out
}

// Restore takes over what a checkpoint says that pods hold.
func (b *Book) Restore(list []*Holding) {
	for _, h := range list {
		if h != nil && h.Pod.UID != "" && h.Resource != "" {
			b.keep(h)
		}
	}
}
