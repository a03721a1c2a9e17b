package explain

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
)

// nodeConfigured is which NodeConfiguration is in force on a node, and what the agent has made of it.
type nodeConfigured struct {
	// Name is that of the NodeConfiguration that the node was told, Revision what it said then; empty: none is in force any more.
	Name     string `json:"name,omitempty"`
	Revision string `json:"revision,omitempty"`
	// State is Told, Applied, Refused or Ended.
	State string `json:"state"`
	// Error says why the agent refuses it.
	Error string `json:"error,omitempty"`
	// FromFile: the agent runs with its file alone. Otherwise, and where State is not Applied, it runs with what it was told before.
	FromFile bool `json:"fromFile,omitempty"`
	// Idle: the node does not lend, so that nothing uses the parameters.
	Idle       bool                   `json:"idle,omitempty"`
	Parameters spec.WrittenParameters `json:"parameters,omitempty"`
}

// The states of a nodeConfigured.
const (
	configurationTold    = "Told"    // and the agent has not answered
	configurationApplied = "Applied" // the agent runs with it
	configurationRefused = "Refused" // the agent runs with what it had
	configurationEnded   = "Ended"   // the node is to go by its file again, and the agent has not said yet that it does
)

// configured compares what a node was told with what its agent says; nil: neither says anything.
func configured(wanted *spec.WantedConfiguration, applied *spec.AppliedConfiguration) *nodeConfigured {
	inForce := ""
	if applied != nil {
		inForce = applied.InForce
	}
	if wanted == nil {
		if inForce == "" {
			return nil
		}
		return &nodeConfigured{State: configurationEnded}
	}
	c := &nodeConfigured{Name: wanted.Name, Revision: wanted.Revision, State: configurationTold, FromFile: inForce == "", Parameters: wanted.Parameters}
	if applied == nil || applied.Hash != wanted.Hash {
		return c
	}
	c.Idle = applied.Idle
	switch {
	case applied.Error != "":
		c.State, c.Error = configurationRefused, applied.Error
	case inForce == wanted.Hash:
		c.State = configurationApplied
	}
	return c
}

// String says it in a line or two.
func (c *nodeConfigured) String() string {
	before := "it runs with what it was told before"
	if c.FromFile {
		before = "it runs with its file alone"
	}
	var text string
	switch c.State {
	case configurationEnded:
		return "Configuration: no NodeConfiguration is in force any more, and the agent has not gone back to its file yet."
	case configurationApplied:
		text = fmt.Sprintf("Configuration: NodeConfiguration %s, revision %s, is in force: %s", c.Name, c.Revision, c.Parameters)
	case configurationRefused:
		text = fmt.Sprintf("Configuration: the agent refuses NodeConfiguration %s, revision %s (%s); %s.", c.Name, c.Revision, c.Error, before)
	default:
		text = fmt.Sprintf("Configuration: the agent was told NodeConfiguration %s, revision %s, and has not answered yet; %s.", c.Name, c.Revision, before)
	}
	if c.Idle {
		text += "\nThe node does not lend, so that nothing uses its parameters."
	}
	return text
}
