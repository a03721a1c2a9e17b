package facts

import (
	"cmp"
	"slices"
	"strings"
)

// DRAKind is a kind of object of dynamic resource allocation (DRA).
type DRAKind uint8

// The kinds of DRA objects.
const (
	ResourceClaimKind DRAKind = iota + 1
	DeviceClassKind
	ResourceSliceKind
	DeviceTaintRuleKind
)

// DRAKinds is how many there are.
const DRAKinds = int(DeviceTaintRuleKind)

// DRAName names an object of a DRAKind. Objects without a namespace have an empty one.
type DRAName struct {
	Kind            DRAKind
	Namespace, Name string
}

// CompareDRANames orders by kind, namespace and name.
func CompareDRANames(a, b DRAName) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// DRAObject is one of *ResourceClaim, *DeviceClass, *ResourceSlice and *DeviceTaintRule. It is immutable.
type DRAObject interface{ DRAName() DRAName }

// MaxReservedFor is how many consumers one ResourceClaim may be reserved for (the API's bound).
const MaxReservedFor = 256

// ResourceClaimUse is an entry of a pod's spec.resourceClaims.
type ResourceClaimUse struct {
	// Claim is the name of the ResourceClaim; empty: it is not known yet, because nothing has been made of the template.
	Claim string
	// Generated: it is made from a template for this pod, which must control it.
	Generated bool
}

// ResourceClaim is a ResourceClaim.
type ResourceClaim struct {
	ClaimName
	UID string
	// Pod controls the claim; empty: none does.
	Pod UID
	// Requests is what it asks for. Claims that ask for the same share the Key.
	Requests ClaimRequests
	// Allocation is what the API server says that it was given; nil: nothing.
	Allocation *ClaimAllocation
	// ReservedFor are the UIDs of those that may use it.
	ReservedFor []UID
	// Protected: it has the finalizer that an allocated claim must have.
	Protected bool
	Deleting  bool
	// Version is its resource version. Later versions are greater.
	Version uint64
	// Conditions are the conditions that drivers have set of its devices, of those that are True.
	Conditions []DeviceCondition
}

// DRAName names the claim.
func (c *ResourceClaim) DRAName() DRAName { return DRAName{ResourceClaimKind, c.Namespace, c.Name} }

// ReservedForUID reports whether the consumer may use the claim.
func (c *ResourceClaim) ReservedForUID(uid UID) bool { return slices.Contains(c.ReservedFor, uid) }

// ClaimRequests is what a ResourceClaim asks for (its spec.devices).
type ClaimRequests struct {
	// Key is equal for claims that ask for the same, and only for these.
	Key string
	// Classes are the device classes that it names, each with the request that names it.
	Classes []ClassUse
	// Alternatives are the entries of its prioritized lists.
	Alternatives []Alternative
	// Spec is the spec as the door has it. Only the allocator, which comes through the same door, reads it.
	Spec any
}

// Alternative is an entry of a request's prioritized list (firstAvailable).
type Alternative struct {
	// Request is how devices that are given for it name it: request/entry.
	Request string
	// Worth is greater for an earlier entry.
	Worth int64
}

// Worth is what the devices that a claim is given are worth by the places of their requests in prioritized lists.
func (r *ClaimRequests) Worth(devices []AllocatedDevice) (sum int64) {
	for _, a := range r.Alternatives {
		if slices.ContainsFunc(devices, func(d AllocatedDevice) bool { return d.Request == a.Request }) {
			sum += a.Worth
		}
	}
	return sum
}

// ClassUse is a request that names a device class.
type ClassUse struct{ Request, Class string }

// DeviceID names a device.
type DeviceID struct{ Driver, Pool, Device string }

// String is driver/pool/device.
func (d DeviceID) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// DeviceCondition is a condition that a driver has set of an allocated device to True.
type DeviceCondition struct {
	DeviceID
	Type, Message string
}

// ClaimAllocation is what a claim is given (status.allocation).
type ClaimAllocation struct {
	Devices []AllocatedDevice
	// Nodes are where the devices can be used: one of the terms must match; nil: everywhere.
	Nodes []Term
	// Body is the allocation as JSON, as the API has it.
	Body string
}

// AllocatedDevice is a device of a ClaimAllocation.
type AllocatedDevice struct {
	DeviceID
	Request string
	// Admin: it is used for administration, beside whoever has it.
	Admin bool
	// Share tells apart the claims that share the device; empty: it is not shared. Consumed is what the claim takes of its capacities, as quantities.
	Share    string
	Consumed string // canonical JSON; empty: nothing
	// Binding are the conditions that must be True before a pod is bound, Failure those of which none may be.
	Binding, Failure []string
}

// DeviceClass is a DeviceClass.
type DeviceClass struct {
	Name string
	// Extended is the extended resource that the class stands for, beside its implicit one; empty: none. Of several classes the last that was Created (in
	// nanoseconds) does.
	Extended string
	Created  int64
	// Spec is the spec as the door has it, for the allocator.
	Spec any
}

// DRAName names the class.
func (c *DeviceClass) DRAName() DRAName { return DRAName{Kind: DeviceClassKind, Name: c.Name} }

// PoolID names a pool of devices.
type PoolID struct{ Driver, Pool string }

// ResourceSlice is a ResourceSlice: a part of a pool.
type ResourceSlice struct {
	Name string
	PoolID
	// Node is the node that alone has the devices; empty: the spec says which nodes have.
	Node string
	// Devices is how many there are in it.
	Devices int
	// Spec is the whole object as the door has it, for the allocator.
	Spec any
}

// DRAName names the slice.
func (s *ResourceSlice) DRAName() DRAName { return DRAName{Kind: ResourceSliceKind, Name: s.Name} }

// DeviceTaintRule is a DeviceTaintRule: a taint that an administrator gives to devices beside those that drivers publish.
type DeviceTaintRule struct {
	Name string
	// Driver and Pool are whose devices it may be about; empty: those of any.
	Driver, Pool string
	// Spec is the whole object as the door has it, for the allocator.
	Spec any
}

// DRAName names the rule.
func (r *DeviceTaintRule) DRAName() DRAName { return DRAName{Kind: DeviceTaintRuleKind, Name: r.Name} }

// Concerns reports whether the rule may be about devices of the pool.
func (r *DeviceTaintRule) Concerns(pool PoolID) bool {
	return (r.Driver == "" || r.Driver == pool.Driver) && (r.Pool == "" || r.Pool == pool.Pool)
}

// ClaimNeeds is what the ResourceClaims of a pod ask of its node, as claims, classes and allocations stand. It is immutable.
type ClaimNeeds struct {
	// Allocated are where the claims that have devices can be used: of each, one term must match.
	Allocated [][]Term
	// Unallocated are the claims that are given devices once the pod has a node, whatever their names are.
	Unallocated []ClaimRequests
	// Shared are the names of the Unallocated that several members of gangs use: what is given to one is given to all. An empty name stands for another;
	// there are none at all if all are.
	Shared []ClaimName
	// Reserved are the claims that may be reserved for fewer pods than use them.
	Reserved []ClaimRoom
	// Worth is what the claims that have devices have, by prioritized lists. Without Unallocated it is 0.
	Worth int64
	// Key of the Unallocated: equal for needs that ask for the same.
	Key string
	// Extended are the resources that DeviceClasses stand for where the node publishes none of them, sorted. What the pod needs there is one of the Variants, by the
	// set of those that the node does not publish: bit i for Extended[i]. A Variant that is nil cannot be had. What is said above holds for all nodes.
	Extended []string
	Variants []*ClaimNeeds
}

// MaxExtended bounds the Extended resources of a pod: each doubles the Variants.
const MaxExtended = 4

// On is what a pod needs on a node that publishes some resources; nil: it cannot go there.
func (n *ClaimNeeds) On(publishes func(resource string) bool) *ClaimNeeds {
	if n == nil || len(n.Extended) == 0 {
		return n
	}
	set := 0
	for i, name := range n.Extended {
		if !publishes(name) {
			set |= 1 << i
		}
	}
	return n.Variants[set]
}

// Stands reports whether a DeviceClass stands for a resource of the pod.
func (n *ClaimNeeds) Stands(resource string) bool {
	if n == nil {
		return false
	}
	_, ok := slices.BinarySearch(n.Extended, resource)
	return ok
}

// Asks reports whether devices must be chosen for the pod, on some nodes at least.
func (n *ClaimNeeds) Asks() bool {
	return n != nil && (len(n.Unallocated) > 0 || slices.ContainsFunc(n.Variants, func(v *ClaimNeeds) bool { return v != nil && len(v.Unallocated) > 0 }))
}

// ClaimRoom is how many more pods a claim may be reserved for.
type ClaimRoom struct {
	Claim ClaimName
	Left  int
}

// SharedName is the name of one of the Unallocated; empty if the claim is the pod's own.
func (n *ClaimNeeds) SharedName(i int) (name ClaimName) {
	if len(n.Shared) > 0 {
		name = n.Shared[i]
	}
	return name
}

// Shares lists the claims without devices that other pods use too.
func (n *ClaimNeeds) Shares() []ClaimName {
	if n == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Shared), func(name ClaimName) bool { return name == ClaimName{} })
}

// Competes reports whether the needs may be met for one pod and then not for the next, on other nodes too: because devices are shared, or claims are.
func (n *ClaimNeeds) Competes() bool { return n != nil && (n.Asks() || len(n.Reserved) > 0) }

// HasAlternatives reports whether nodes may differ in which entries of prioritized lists they can give.
func (n *ClaimNeeds) HasAlternatives() bool {
	return n != nil && slices.ContainsFunc(n.Unallocated, func(r ClaimRequests) bool { return len(r.Alternatives) > 0 })
}

// Suits reports whether the devices that claims have can be used on the node.
func (n *ClaimNeeds) Suits(node *Node) bool {
	return !slices.ContainsFunc(n.Allocated, func(terms []Term) bool {
		return !slices.ContainsFunc(terms, func(t Term) bool { return t.Matches(node) })
	})
}

// AppendKey appends the canonical encoding.
func (n *ClaimNeeds) AppendKey(buffer []byte) []byte {
	w := Key(buffer)
	w.Number(int64(len(n.Allocated)))
	for _, terms := range n.Allocated {
		w.terms(terms)
	}
	w.Text(n.Key)
	w.Number(n.Worth)
	w.claims(n.Shared)
	w.Number(int64(len(n.Reserved)))
	for _, r := range n.Reserved {
		w.Text(r.Claim.Namespace)
		w.Text(r.Claim.Name)
		w.Number(int64(r.Left))
	}
	w.strings(n.Extended)
	for _, v := range n.Variants {
		w.Flag(v != nil)
		if v != nil {
			w = v.AppendKey(w)
		}
	}
	return w
}

// Hosts names the nodes beyond which the pod can go nowhere, by the field of their name or their hostname; key is empty if there is no such bound.
func (n *ClaimNeeds) Hosts() (key string, values []string) {
	for _, terms := range n.Allocated {
		if values := names(terms); len(values) > 0 {
			return FieldName, values
		}
		if values, ok := hosts(terms); ok {
			return HostnameKey, values
		}
	}
	return "", nil
}

// names lists the nodes that the terms allow by name; nil if one of them allows more.
func names(terms []Term) (values []string) {
	for i := range terms {
		at := slices.IndexFunc(terms[i].Fields, func(r Requirement) bool { return r.Key == FieldName && r.Operator == In })
		if at < 0 {
			return nil
		}
		values = append(values, terms[i].Fields[at].Values...)
	}
	return values
}
