package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

// MaxTime bounds the search for devices on one node, which is exponential at worst. It runs on the scheduler's goroutine.
const MaxTime = 200 * time.Millisecond

// maxExpressions bounds the compiled expressions that are kept.
const maxExpressions = 256

// features are those that are on by default in v1.37.
var features = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
}

// refused is upstream's phrase for a node that cannot give all claims their devices.
const refused = "cannot allocate all claims"

// Allocator is a dra.Allocator. It is for one goroutine.
type Allocator struct {
	expressions *cel.Cache
	parser      *parse.Parser
	maxTime     time.Duration
	within      func() (context.Context, context.CancelFunc)
}

var _ dra.Allocator = (*Allocator)(nil)

// NewAllocator returns an Allocator that searches for devices on a node no longer than maxTime. Its searches end with the context, too.
func NewAllocator(ctx context.Context, maxTime time.Duration) *Allocator {
	return &Allocator{
		maxTime:     maxTime,
		expressions: cel.NewCache(maxExpressions, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity}),
		parser:      parse.NewParser("", nil),
		within:      func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, maxTime) },
	}
}

// Allocate chooses devices for all claims of the Query, or says why it cannot.
func (a *Allocator) Allocate(q *dra.Query) ([]*facts.ClaimAllocation, string) {
	ctx, cancel := a.within()
	defer cancel()
	taken, err := takenDevices(q)
	if err != nil {
		return nil, err.Error()
	}
	allocator, err := structured.NewAllocator(ctx, features, *taken, classes(q.Classes), slicesOf(q), a.expressions)
	if err != nil {
		return nil, err.Error()
	}
	results, err := allocator.Allocate(ctx, nodeOf(q.Node), claimsOf(q))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Sprintf("no devices were found on node %s within %s", q.Node.Name, a.maxTime)
	case err != nil:
		return nil, err.Error()
	case len(results) != len(q.Claims):
		return nil, refused
	}
	out := make([]*facts.ClaimAllocation, len(results))
	for i := range results {
		body, err := json.Marshal(&results[i])
		if err != nil {
			return nil, fmt.Sprintf("encode what a claim is given on node %s: %v", q.Node.Name, err)
		}
		out[i] = a.parser.Allocation(&results[i])
		out[i].Body = string(body)
	}
	return out, ""
}

// Exactly is what a claim asks for that is made of requests.
func (a *Allocator) Exactly(requests []facts.DeviceRequest) facts.ClaimRequests {
	var claim resourcev1.DeviceClaim
	for _, r := range requests {
		claim.Requests = append(claim.Requests, resourcev1.DeviceRequest{Name: r.Name, Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: r.Class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: r.Count,
		}})
	}
	return a.parser.ClaimRequests(&claim)
}

// Taint returns the slice with the taints that rules give to its devices. (Upstream's tracker of ResourceSlices.)
func (a *Allocator) Taint(slice *facts.ResourceSlice, rules []*facts.DeviceTaintRule) *facts.ResourceSlice {
	published, ok := slice.Spec.(*resourcev1.ResourceSlice)
	if !ok {
		return slice
	}
	tainted := published
	for _, r := range rules {
		rule, ok := r.Spec.(*resourcev1.DeviceTaintRule)
		if !ok {
			continue
		}
		for i := range published.Spec.Devices {
			if s := rule.Spec.DeviceSelector; s == nil || s.Device == nil || *s.Device == published.Spec.Devices[i].Name {
				if tainted == published {
					tainted = published.DeepCopy()
				}
				tainted.Spec.Devices[i].Taints = append(tainted.Spec.Devices[i].Taints, rule.Spec.Taint)
			}
		}
	}
	if tainted == published {
		return slice
	}
	out := *slice
	out.Spec = tainted
	return &out
}

// classes is the device classes of a Query, as upstream asks for them.
type classes map[string]*facts.DeviceClass

// List lists them all.
func (c classes) List() (list []*resourcev1.DeviceClass, err error) {
	for name := range c {
		class, err := c.Get(name)
		if err != nil {
			return nil, err
		}
		list = append(list, class)
	}
	return list, nil
}

// Get returns the class of that name.
func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if known := c[name]; known != nil {
		if class, ok := known.Spec.(*resourcev1.DeviceClass); ok {
			return class, nil
		}
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

func nodeOf(n *facts.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
}

func slicesOf(q *dra.Query) []*resourcev1.ResourceSlice {
	list := make([]*resourcev1.ResourceSlice, 0, len(q.Slices))
	for _, s := range q.Slices {
		if slice, ok := s.Spec.(*resourcev1.ResourceSlice); ok {
			list = append(list, slice)
		}
	}
	return list
}

func claimsOf(q *dra.Query) []*resourcev1.ResourceClaim {
	list := make([]*resourcev1.ResourceClaim, len(q.Claims))
	for i := range q.Claims {
		name := strconv.Itoa(i)
		list[i] = &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if devices, ok := q.Claims[i].Spec.(*resourcev1.DeviceClaim); ok {
			list[i].Spec.Devices = *devices
		}
	}
	return list
}

// takenDevices is what claims have of the Query's pools, as upstream keeps it.
func takenDevices(q *dra.Query) (*structured.AllocatedState, error) {
	state := &structured.AllocatedState{
		AllocatedDevices: make(sets.Set[structured.DeviceID], len(q.Taken)), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for i := range q.Taken {
		d := &q.Taken[i]
		id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
		switch {
		case d.Admin:
		case d.Share == "":
			state.AllocatedDevices.Insert(id)
		default:
			share := types.UID(d.Share)
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
			if d.Consumed == "" {
				continue
			}
			var consumed map[resourcev1.QualifiedName]resource.Quantity
			if err := json.Unmarshal([]byte(d.Consumed), &consumed); err != nil {
				return nil, fmt.Errorf("read what is consumed of device %s: %w", d.DeviceID, err)
			}
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
		}
	}
	return state, nil
}
