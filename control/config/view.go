package config

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// View is all that Decide sees.
type View struct {
	// Objects are the NodeConfigurations, Nodes the nodes that have a CustomNodeResource, each in any order.
	Objects []Object
	Nodes   []Node
}

// Object is a NodeConfiguration.
type Object struct {
	Name       string
	Created    time.Time
	Generation int64
	Spec       spec.NodeConfiguration
	Status     spec.NodeConfigurationStatus
	// Unreadable says why the object cannot be read at all; empty: it can.
	Unreadable string
}

// Node is a node with an agent.
type Node struct {
	Name   string
	Labels map[string]string
	// Wanted is what the node was told; nil: nothing.
	Wanted *spec.WantedConfiguration
	// Report is what its agent says.
	Report Report
}

// Report is what a node's agent says of configuration. The zero value is an agent that has said nothing.
type Report struct {
	// ObservedAt is the time of the report by the node's clock.
	ObservedAt time.Time
	// Ready is the condition AgentReady.
	Ready   bool
	Applied *spec.AppliedConfiguration
	Health  *spec.NodeHealth
}

// Params bound what is believed.
type Params struct {
	// StaleAfter is the age from which on an agent counts as silent. Agents report every five minutes at least.
	StaleAfter time.Duration
}

// Defaults are the Params of the controller role.
func Defaults() Params { return Params{StaleAfter: 15 * time.Minute} }

// Action is a write. One of its fields is set.
type Action struct {
	Tell   *Tell
	Status *StatusWrite
}

// Tell is what a node is to be told; Wanted nil: nothing, so that its agent goes back to its file.
type Tell struct {
	Node   string
	Wanted *spec.WantedConfiguration
}

// StatusWrite is the status that an object should have.
type StatusWrite struct {
	Object     string
	Status     spec.NodeConfigurationStatus
	Conditions []spec.NodeCondition
	// Changed: it says more than counts, and nodes wait for it.
	Changed bool
}

// sorted is a copy of the view in the order of names, so that no answer depends on the order in which objects arrived.
func (v *View) sorted() View {
	out := View{slices.Clone(v.Objects), slices.Clone(v.Nodes)}
	slices.SortFunc(out.Objects, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
