package scenario

import (
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Step is one command.
type Step interface{ step() }

// AddNodes makes nodes that are alike but for their place in the network.
type AddNodes struct{ Nodes []*facts.Node }

// SetQueue configures a queue, anew if there is one.
type SetQueue struct{ Queue *facts.Queue }

// SetNamespace makes a namespace, or gives it other labels.
type SetNamespace struct{ Namespace facts.Namespace }

// AddGang makes a PodGroup, and Size pods that name it.
type AddGang struct {
	Unit facts.Unit
	Size int
	Pod  Template
	// Subgroups is the number of equal parts that the members are of, 0 for none; member i is of part i*Subgroups/Size.
	Subgroups int
}

// AddPods makes pods that are units of their own.
type AddPods struct {
	Namespace, Name string
	Count           int
	Pod             Template
	// Foreign: another scheduler binds them, to the node On.
	Foreign bool
	On      string
}

// AddReservation keeps room for pods that come later.
type AddReservation struct {
	Namespace, Name string
	Count           int
	Pod             Template
	// For is the gang or set of the namespace whose pods are the owners.
	For string
	// TTL is how long it stands, 0: until it is deleted.
	TTL time.Duration
}

// LabelSet is the label by which the pods of a set or a gang own a Reservation; its value is their name.
const LabelSet = "scenario.hilbert.dev/set"

// Owners are who may have the places.
func (a *AddReservation) Owners() []facts.ReservationOwner {
	return []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{
		{Key: LabelSet, Operator: facts.In, Values: []string{a.For}},
	}}}}
}

// Scale makes pods of a gang or a set until there are Size, or removes those with the highest numbers.
type Scale struct {
	Namespace, Name string
	Size            int
}

// Kind is what Delete takes away.
type Kind string

// The kinds.
const (
	OfGang     Kind = "gang"     // the PodGroup and its pods
	OfPodGroup Kind = "podgroup" // only the PodGroup
	OfPods     Kind = "pods"     // all pods of a set
	OfPod      Kind = "pod"      // one pod, NAME-i, which its controller makes anew
	OfQueue    Kind = "queue"
	// OfReservation is the Reservation alone: pods that have its places keep them.
	OfReservation Kind = "reservation"
)

// Delete takes something away.
type Delete struct {
	Kind            Kind
	Namespace, Name string
}

// Finish lets the pods of a gang or a set that run come to their end; with Count, only so many.
type Finish struct {
	Namespace, Name string
	Count           int // 0: all
}

// SetNode does something to a node.
type SetNode struct {
	Name string
	// Of, where Name is empty, is the gang whose first running member's node is meant. Revive with neither is about all nodes that are gone.
	Of facts.UnitName
	Do NodeChange
}

// NodeChange is what SetNode does.
type NodeChange uint8

// The changes. The pods of a node that is killed are removed, and made anew by their controllers.
const (
	Kill NodeChange = iota + 1
	Revive
	Cordon
	Uncordon
)

// Restart ends the scheduler's process and starts another.
type Restart struct{}

// Run lets time pass, and prints what has changed since something was printed last.
type Run struct{ For time.Duration }

// Show prints all there is.
type Show struct{}

func (AddNodes) step()       {}
func (SetQueue) step()       {}
func (SetNamespace) step()   {}
func (AddGang) step()        {}
func (AddPods) step()        {}
func (AddReservation) step() {}
func (Scale) step()          {}
func (Delete) step()         {}
func (Finish) step()         {}
func (SetNode) step()        {}
func (Restart) step()        {}
func (Run) step()            {}
func (Show) step()           {}

// Template is what the pods of a gang or a set are like.
type Template struct {
	CPU, Memory int64 // millicores, bytes
	GPU         topology.Request
	// Selector is what their node selector names, sorted by key.
	Selector      []facts.Label
	Priority      int32
	NeverPreempts bool
	// Duration is how long they run once they are bound, 0: until somebody ends them. Deadline is activeDeadlineSeconds, 0 for none.
	Duration, Deadline time.Duration
}

// Requirements is the template as placement sees it.
func (t *Template) Requirements() *facts.Requirements {
	r := &facts.Requirements{GPU: t.GPU, NodeSelector: t.Selector, ScoreCPU: 100, ScoreMemory: 200 << 20}
	if t.CPU > 0 {
		r.Requests = append(r.Requests, resource.Quantity{Name: resource.NameCPU, Amount: t.CPU})
		r.ScoreCPU = t.CPU
	}
	if t.Memory > 0 {
		r.Requests = append(r.Requests, resource.Quantity{Name: resource.NameMemory, Amount: t.Memory})
		r.ScoreMemory = t.Memory
	}
	return r
}
