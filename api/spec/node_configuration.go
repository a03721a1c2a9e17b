package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Names of NodeConfigurations.
const (
	NodeConfigurationKind   = "NodeConfiguration"
	NodeConfigurationPlural = "nodeconfigurations"
)

// NodeConfiguration gives parameters to nodes. Of those that target a node one is in force: one that names the node goes before one that selects it by labels, and that
// before one that targets all nodes; among equals the higher priority, then the older one. For example
//
//	nodeSelector: {matchLabels: {pool: web}}
//	parameters: {lending: {targetUtilization: 60}}
//
// has the agents of all nodes of the pool lend less, five percent of them first.
type NodeConfiguration struct {
	// NodeNames are the nodes that are targeted.
	NodeNames []string `json:"nodeNames,omitempty"`
	// NodeSelector targets nodes by their labels. Neither it nor NodeNames: all nodes.
	NodeSelector *PodSelector `json:"nodeSelector,omitempty"`
	// Priority decides among those that select a node by labels, or that target all nodes: the higher one is in force.
	Priority int32 `json:"priority,omitempty"`
	// Parameters are those that differ from the file of the node's agent.
	Parameters WrittenParameters `json:"parameters,omitempty"`
	// Paused gives what has changed to no further node. A rollback still happens.
	Paused bool `json:"paused,omitempty"`
	// Expires is when it ends to target nodes; nil: never. For an emergency, for example, that must not be forgotten.
	Expires *time.Time `json:"expires,omitempty"`
	// Rollout says how a change reaches the nodes.
	Rollout *ConfigurationRollout `json:"rollout,omitempty"`
}

// +kubebuilder:object:generate=true

// ConfigurationRollout says how a change reaches the nodes. What is not written has the value that CompleteRollout gives it.
type ConfigurationRollout struct {
	// Steps are the percentages of the targeted nodes that have the change, in turn; the last one is 100. Each step is one node at least.
	Steps []int `json:"steps,omitempty"`
	// Pause is how long the nodes of a step have had the change before the next step.
	Pause *Duration `json:"pause,omitempty"`
	// Gate compares the nodes that have the change with those that have it not.
	Gate *ConfigurationGate `json:"gate,omitempty"`
}

// +kubebuilder:object:generate=true

// ConfigurationGate compares the nodes that have a change with those that have it not. Where they fare worse than is allowed, the change is taken back from all.
type ConfigurationGate struct {
	// Disabled compares nothing. A node that refuses the change still has it taken back.
	Disabled bool `json:"disabled,omitempty"`
	// RunDelayPercent is by how much of the others' run delay that of the changed nodes may be longer.
	RunDelayPercent *int `json:"runDelayPercent,omitempty"`
	// RunDelaySlack is by how many thousandths of a waiting thread for each shared CPU it may be longer besides.
	RunDelaySlack *int `json:"runDelaySlack,omitempty"`
	// EvictionsPerHundred is by how many evictions for each hundred nodes the changed ones may exceed the others.
	EvictionsPerHundred *int `json:"evictionsPerHundred,omitempty"`
	// UnreadyPercent is by how many percent of the nodes more may have an agent that is not ready.
	UnreadyPercent *int `json:"unreadyPercent,omitempty"`
}

// CompleteRollout fills in what is not written. It is the only place where these defaults are defined.
func CompleteRollout(r *ConfigurationRollout) ConfigurationRollout {
	var out ConfigurationRollout
	if r != nil {
		out = *r
	}
	if len(out.Steps) == 0 {
		out.Steps = []int{5, 25, 100}
	}
	if out.Pause == nil {
		out.Pause = new(Duration(5 * time.Minute))
	}
	var gate ConfigurationGate
	if out.Gate != nil {
		gate = *out.Gate
	}
	for _, x := range []struct {
		field **int
		value int
	}{{&gate.RunDelayPercent, 20}, {&gate.RunDelaySlack, 20}, {&gate.EvictionsPerHundred, 2}, {&gate.UnreadyPercent, 2}} {
		if *x.field == nil {
			*x.field = new(x.value)
		}
	}
	out.Gate = &gate
	return out
}

// The bounds of a NodeConfiguration.
const (
	MaxConfigurationNodes = 1000
	MaxRolloutSteps       = 16
	maxRolloutPause       = 7 * 24 * time.Hour
)

// ValidateNodeConfiguration returns every mistake, joined; each names its field. The parameters are held to what the daemon starts with (CheckNode).
func ValidateNodeConfiguration(c *NodeConfiguration) error {
	var errs []error
	bad := collector(&errs)
	if len(c.NodeNames) > MaxConfigurationNodes {
		bad("nodeNames", "%d names; write at most %d, or select nodes by a label", len(c.NodeNames), MaxConfigurationNodes)
	}
	if c.NodeSelector != nil {
		validateSelector(c.NodeSelector, func(field, format string, args ...any) { bad("nodeS"+field[1:], format, args...) })
		if len(c.NodeNames) > 0 {
			bad("nodeSelector", "nodeNames is there too; write one of them")
		}
	}
	validateRollout(CompleteRollout(c.Rollout), bad)
	defaults := Default().Node
	if _, err := c.Parameters.On(&defaults); err != nil {
		for _, f := range FieldErrors(err) {
			errs = append(errs, &FieldError{Field: "parameters" + f.Field[len("node"):], Err: f.Err})
		}
	}
	return errors.Join(errs...)
}

func validateRollout(r ConfigurationRollout, bad report) {
	const all = 100
	if len(r.Steps) > MaxRolloutSteps {
		bad("rollout.steps", "%d steps; write at most %d", len(r.Steps), MaxRolloutSteps)
	}
	for i, step := range r.Steps {
		if step < 1 || step > all || i > 0 && step <= r.Steps[i-1] {
			bad(fmt.Sprintf("rollout.steps[%d]", i), "%d: write percentages from 1 to 100, each above the one before", step)
		}
	}
	if r.Steps[len(r.Steps)-1] != all {
		bad("rollout.steps", "the last one is %d; write 100, for a change that reaches all nodes", r.Steps[len(r.Steps)-1])
	}
	if *r.Pause < 0 || r.Pause.D() > maxRolloutPause {
		bad("rollout.pause", "%v: want 0s to %v", r.Pause.D(), maxRolloutPause)
	}
	const most = 1_000_000
	for _, x := range []struct {
		field string
		value int
	}{
		{"runDelayPercent", *r.Gate.RunDelayPercent},
		{"runDelaySlack", *r.Gate.RunDelaySlack},
		{"evictionsPerHundred", *r.Gate.EvictionsPerHundred},
		{"unreadyPercent", *r.Gate.UnreadyPercent},
	} {
		if x.value < 0 || x.value > most {
			bad("rollout.gate."+x.field, "%d: want 0 to %d", x.value, most)
		}
	}
}

// +kubebuilder:object:generate=true

// ConfigurationRevision is what a NodeConfiguration says of nodes at one time: which ones, and which parameters.
type ConfigurationRevision struct {
	NodeNames    []string          `json:"nodeNames,omitempty"`
	NodeSelector *PodSelector      `json:"nodeSelector,omitempty"`
	Priority     int32             `json:"priority,omitempty"`
	Parameters   WrittenParameters `json:"parameters,omitempty"`
}

// Revision is what the NodeConfiguration says now, in a form that depends on what it says alone.
func (c *NodeConfiguration) Revision() ConfigurationRevision {
	r := ConfigurationRevision{NodeSelector: c.NodeSelector, Priority: c.Priority, Parameters: c.Parameters}
	if canonical, err := c.Parameters.Canonical(); err == nil {
		r.Parameters = canonical
	}
	r.NodeNames = slices.Clone(c.NodeNames)
	slices.Sort(r.NodeNames)
	return r
}

// Name names the revision: equal ones have the same name.
func (r *ConfigurationRevision) Name() string {
	text, err := json.Marshal(struct {
		Names    []string
		Selector *PodSelector
		Priority int32
		Hash     string
	}{r.NodeNames, r.NodeSelector, r.Priority, r.Parameters.Hash()})
	if err != nil {
		return "" // there is nothing in it that could not be written
	}
	return hashOf(text)
}

// +kubebuilder:object:generate=true

// NodeConfigurationStatus is what the controller says of a NodeConfiguration. It is the controller's memory too: one that takes over goes on from it.
type NodeConfigurationStatus struct {
	// ObservedGeneration is the generation that this is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Stable is the revision that has reached all nodes; nil: none has.
	Stable *ConfigurationRevision `json:"stable,omitempty"`
	// Rollout is of a revision that has not reached all nodes, or was taken back.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Nodes counts the nodes.
	Nodes ConfigurationNodes `json:"nodes"`
}

// +kubebuilder:object:generate=true

// ConfigurationNodes counts nodes: those that are targeted, those that were told of the newest revision, and those of them that have applied it.
type ConfigurationNodes struct {
	Targeted int `json:"targeted"`
	Told     int `json:"told"`
	Applied  int `json:"applied"`
}

// RolloutStatus is how far a revision has come.
type RolloutStatus struct {
	// Revision names it.
	Revision string `json:"revision"`
	// Step is the index of the step, Percent its share of the targeted nodes.
	Step    int `json:"step"`
	Percent int `json:"percent"`
	// SettledAt is when all nodes of the step had applied it; nil: not yet.
	SettledAt *time.Time `json:"settledAt,omitempty"`
	// Before is how the targeted nodes fared before.
	Before ConfigurationFigures `json:"before"`
	// RolledBack: it was taken back from all nodes, for the reason that Message gives.
	RolledBack bool `json:"rolledBack,omitempty"`
	// Message says what it waits for, or why it was taken back, with the figures.
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:generate=true

// ConfigurationFigures are how some nodes fare.
type ConfigurationFigures struct {
	// Nodes is how many there are, Unready how many of them have an agent that is not ready or silent.
	Nodes   int `json:"nodes"`
	Unready int `json:"unready"`
	// Known is of how many of them run delay and evictions are known: the means below are of these.
	Known int `json:"known"`
	// RunDelay is the mean, in thousandths of a waiting thread for each shared CPU; Evictions is their sum.
	RunDelay  int64 `json:"runDelay"`
	Evictions int64 `json:"evictions"`
}

// +kubebuilder:object:generate=true

// WantedConfiguration is what the controller tells a node's agent: the configuration that is in force there. It stands in the spec of the CustomNodeResource.
type WantedConfiguration struct {
	// Name is that of the NodeConfiguration.
	Name string `json:"name"`
	// Revision names what it says now, Hash the parameters.
	Revision string `json:"revision"`
	Hash     string `json:"hash"`
	// Parameters are those that differ from the agent's file.
	Parameters WrittenParameters `json:"parameters,omitempty"`
}

// AppliedConfiguration is what an agent has made of what it was told.
type AppliedConfiguration struct {
	// Name and Hash are of the last WantedConfiguration that the agent read.
	Name string `json:"name"`
	Hash string `json:"hash"`
	// InForce is the hash of the parameters that the agent runs with: Hash, or where Error is there those of before. Empty: the file's.
	InForce string `json:"inForce,omitempty"`
	// Error says why Hash is not in force.
	Error string `json:"error,omitempty"`
	// Since is when that came to be so, by the node's clock.
	Since time.Time `json:"since"`
	// Idle: the node does not lend, so that no law uses the parameters.
	Idle bool `json:"idle,omitempty"`
}

// +kubebuilder:object:generate=true

// NodeHealth is how a node's online pods and its reclaimed pods have fared over the last WindowSeconds. A node that does not know it reports none.
type NodeHealth struct {
	// RunDelay is how many threads of shared pods waited for each shared CPU, in thousandths.
	RunDelay int64 `json:"runDelay"`
	// Evictions is how many pods the agent wanted evicted that it had not wanted evicted before.
	Evictions int64 `json:"evictions"`
	// WindowSeconds is the time over which that is.
	WindowSeconds int64 `json:"windowSeconds"`
}

// MaxConfigurationError bounds AppliedConfiguration.Error, in bytes.
const MaxConfigurationError = 1024

// What has a time is copied by hand, for controller-gen takes a time.Time for one of its own types.

// DeepCopyInto copies into out.
func (c *NodeConfiguration) DeepCopyInto(out *NodeConfiguration) {
	*out = *c
	out.NodeNames, out.Parameters = slices.Clone(c.NodeNames), slices.Clone(c.Parameters)
	out.NodeSelector, out.Rollout = c.NodeSelector.DeepCopy(), c.Rollout.DeepCopy()
	out.Expires = copyTime(c.Expires)
}

// DeepCopy returns a copy.
func (r *RolloutStatus) DeepCopy() *RolloutStatus {
	if r == nil {
		return nil
	}
	out := new(*r)
	out.SettledAt = copyTime(r.SettledAt)
	return out
}

// DeepCopy returns a copy.
func (a *AppliedConfiguration) DeepCopy() *AppliedConfiguration {
	if a == nil {
		return nil
	}
	return new(*a)
}

func copyTime(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(*t)
}
