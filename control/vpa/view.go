package vpa

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// Key names a VerticalPodAutoscaler.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// The update modes of VerticalPodAutoscalers that leave running pods alone. With any other one VPA's updater evicts or resizes pods, whoever recommends.
const (
	UpdateOff     = "Off"
	UpdateInitial = "Initial"
	// UpdateDefault is that of an object that names none.
	UpdateDefault = "Recreate"
)

// AnyContainer is the name in a ContainerPolicy that is about the containers without one of their own.
const AnyContainer = "*"

// Object is a VerticalPodAutoscaler that names our recommender, with what is known of its pods.
type Object struct {
	Key
	UID        string
	Generation int64
	// UpdateMode is VPA's, Mode ours: an annotation; empty: Off.
	UpdateMode string
	Mode       string
	Policies   []ContainerPolicy
	Status     Status
	// Problem says why its target cannot be served; empty: it can.
	Problem string
	// PodsKnown: Pods are those of its target. Without it nothing is decided about it in this round.
	PodsKnown bool
	Pods      []Pod
}

// beyond is an object of which there are too many: its status says so, and nothing else is decided about it.
func (o *Object) beyond() *Object {
	out := *o
	out.Pods, out.Problem = nil, fmt.Sprintf("the controller serves at most %d VerticalPodAutoscalers, of each namespace the first by name; this one is not among them", MaxObjects)
	return &out
}

// ContainerPolicy is what a VerticalPodAutoscaler says about a container.
type ContainerPolicy struct {
	Container string
	Off       bool
	Policy    recommend.Policy
}

// policy is what holds for a container; nil: nothing is said.
func (o *Object) policy(container string) *ContainerPolicy {
	var wildcard *ContainerPolicy
	for i := range o.Policies {
		switch p := &o.Policies[i]; p.Container {
		case container:
			return p
		case AnyContainer:
			wildcard = p
		}
	}
	return wildcard
}

// Pod is a running pod of a target.
type Pod struct {
	Namespace, Name, UID string
	Node                 string
	Created              time.Time
	PriorityClass        string
	// Fixed says why no container of it may be resized; empty: they may.
	Fixed      string
	Resize     recommend.Resize
	Containers []Container
}

// Container is a container of a pod.
type Container struct {
	Name string
	// Requests and Limits are what the pod's spec says; 0 is nothing.
	Requests, Limits recommend.Amounts
	// Restarts: a change of its memory restarts it.
	Restarts bool
	// RanOut is when it was last killed for want of memory; the zero time: never, as far as is known.
	RanOut time.Time
	// Use is what it was last seen to use; the zero time: nothing is known.
	Use   recommend.Sample
	UseAt time.Time
	// Throttled is the share of its periods in which its limit of CPU throttled it until UseAt; ThrottledKnown: it is measured.
	Throttled      float64
	ThrottledKnown bool
}

// PlaceState is how far a Reservation is.
type PlaceState string

// The states of a Reservation of one place.
const (
	PlaceWaiting  PlaceState = "Waiting"
	PlaceReserved PlaceState = "Reserved"
	PlaceGone     PlaceState = "Gone" // lost or used: it holds nothing any more
)

// Place is a Reservation of ours.
type Place struct {
	Namespace, Name string
	State           PlaceState
	Node            string
	// From is what the container asked for when the place was asked for, and Amounts by how much it may grow from there: once.
	From, Amounts recommend.Amounts
	Reason        string
}

// View is what Decide decides on.
type View struct {
	Objects []Object
	// Places are the Reservations of ours, all of them.
	Places []Place
	// Reservations: the API server has Reservations, and Places are known. Without it no pod grows.
	Reservations bool
	// Lenders are the nodes whose room reclaimed pods hold, by name; LendersKnown: they are all that there are. Without it no pod shrinks.
	Lenders      map[string]Lender
	LendersKnown bool
}

// Lender is a node that lends.
type Lender struct {
	// Held is what its reclaimed pods ask for, Headroom what they may ask for all together; Known: its agent says so, and has said so of late.
	Held, Headroom recommend.Amounts
	Known          bool
}

// Status is what the status of a VerticalPodAutoscaler says.
type Status struct {
	Generation int64
	Containers []ContainerStatus
	Conditions []Condition
}

// Bounds are what is recommended of a resource, in millicores or bytes. A resource that the policy leaves alone is not Known.
type Bounds struct {
	Known                          bool
	Target, Lower, Upper, Uncapped int64
}

// ContainerStatus is what is recommended for a container.
type ContainerStatus struct {
	Container   string
	CPU, Memory Bounds
}

// Condition is one of a status.
type Condition struct {
	Type            string
	True            bool
	Reason, Message string
}

// The types of conditions that VPA's recommender writes, and Applied, which is ours: whether pods have what is recommended.
const (
	RecommendationProvided = "RecommendationProvided"
	LowConfidence          = "LowConfidence"
	NoPodsMatched          = "NoPodsMatched"
	ConfigUnsupported      = "ConfigUnsupported"
	Applied                = "Applied"
)

// Action is one thing to do: one of its fields is set. They are to be done in order; where a Save fails, nothing more is done about that object in this round.
type Action struct {
	Object  Key
	Status  *Status
	Save    *Checkpoint
	Reserve *Reserve
	Release *Place
	Resize  *Resize
	Evict   *Evict
	// Forget is the UID of an object that is gone; so may be what was saved of it.
	Forget string
	Reason string
}

// Reserve asks the scheduler for room on the pod's node.
type Reserve struct {
	Name          string
	Pod           *Pod
	From, Amounts recommend.Amounts
}

// Resize changes a container of a pod.
type Resize struct {
	Pod              *Pod
	Container        string
	Requests, Limits recommend.Amounts
	// Disturbs: the container is restarted.
	Disturbs bool
}

// Evict has a pod made anew.
type Evict struct{ Pod *Pod }
