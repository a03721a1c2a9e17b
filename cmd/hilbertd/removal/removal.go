// Package removal has all nodes give back what agents have set on them, before Hilbert or its agents are removed: hilbertd --cleanup=nodes, which the chart runs in a Job
// before helm deletes a release, upgrades to one without agents, or rolls back to one.
//
// Data flow: Run ends the DaemonSets of agents and watchdogs, looks again and again how far the DaemonSet hilbert-cleanup is, whose pods clean one node each, and deletes the
// CustomNodeResources when all of them are ready. Judge says what to do after each look. For example, with reports of n1 and n2 and a cleanup that covers n1 only it stops before any agent
// has ended, because nobody would clean n2.
//
// Invariants: a CustomNodeResource that is there is a node that is not known to be clean; Run ends well only if there is none. It does not touch nodes, and makes nothing.
//
// It does not clean: each node's pod does, by hilbertd --cleanup.
package removal

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cmd/exitcode"
)

// Seen is one look at the cluster.
type Seen struct {
	// Reports are the nodes that have a CustomNodeResource, Nodes those that there are, and Covered those that the cleanup is for.
	Reports        []string
	Nodes, Covered map[string]bool
	// Configured: the agents' configuration is there, without which no pod of the cleanup starts. A release without agents has none.
	Configured bool
	// Cleanup: its DaemonSet is there, and its controller has looked at it; Ready of its Wanted pods have cleaned their nodes.
	Cleanup       bool
	Wanted, Ready int
}

// Verdict is what follows from a look.
type Verdict struct {
	// Refusal: there are reports of nodes that nobody will clean.
	Refusal error
	// Forget are the nodes whose reports may go, now that they are clean, or are no more.
	Forget []string
	// State tells people how far it is.
	State string
}

// Done: nothing of agents is left.
func (v *Verdict) Done() bool { return v.Refusal == nil && v.State == "" }

// maxNamed bounds how many nodes a message names.
const maxNamed = 10

// Judge says what follows from a look. Where nobody can clean there may be no report.
func Judge(s *Seen) Verdict {
	var v Verdict
	var strays, gone []string
	for _, name := range s.Reports {
		switch {
		case !s.Nodes[name]:
			gone = append(gone, name)
		case !s.Covered[name] || !s.Configured:
			strays = append(strays, name)
		}
	}
	if len(strays) > 0 && !s.Configured {
		v.Refusal = exitcode.Negativef("an agent has run on nodes, and its configuration, the ConfigMap %s, is not there, so that nobody would clean them: %s; "+
			"set agent.enabled to true again before, or delete their CustomNodeResources if you know that they are clean", Agent, named(strays))
		return v
	}
	if len(strays) > 0 {
		v.Refusal = exitcode.Negativef("an agent has run on nodes that the DaemonSet %s is not for, so that nobody would clean them: %s; give them back the label by which agents choose "+
			"their nodes, or delete their CustomNodeResources if you know that they are clean", Cleanup, named(strays))
		return v
	}
	v.Forget = gone
	clean := s.Ready >= s.Wanted && s.Cleanup || !s.Configured
	if clean {
		v.Forget = s.Reports
	}
	switch {
	case len(s.Reports) == 0 && (clean || !s.Cleanup && len(s.Covered) == 0):
	case !s.Cleanup && s.Configured:
		v.State = "the controller of the DaemonSet " + Cleanup + " has not looked at it"
	case !clean:
		v.State = fmt.Sprintf("%d of %d nodes are clean", s.Ready, s.Wanted)
	default:
		v.State = fmt.Sprintf("all nodes are clean; reports to delete: %d", len(v.Forget))
	}
	return v
}

// named lists some names.
func named(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
