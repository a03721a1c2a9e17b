// Package uninstall plans in which order Hilbert is removed from a cluster.
//
// Data flow: a caller lists what is there (Facts) and hands it to Plan, which returns steps; the caller prints them, or carries them out one after the other and stops at
// the first that fails. For example, with an agent's DaemonSet the plan deletes the APIService, ends agents and watchdog, starts the cleanup, waits until every node is
// clean, and only then goes on.
//
// Invariants: the APIService goes first, because without hilbertd no namespace could be deleted; nothing that the cleanup needs goes before it has ended; a binding goes
// before its policy, and a role's binding before the role; definitions, with all Queues, Reservations and ResourceRequests, go only if asked for, and last. Plan asks nothing and changes nothing. A plan may
// be made anew after a failure: what is gone is not in the facts any more.
//
// It does not touch pods, nor labels and taints that people gave their nodes.
package uninstall

import (
	"fmt"
	"slices"
	"strings"
)

// Object is one object of Hilbert's that is there.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Path is where the API server has it.
	Path string `json:"-"`
}

// String is KIND NAMESPACE/NAME.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Facts are what is there.
type Facts struct {
	Namespace string
	Objects   []Object
	// Waiting is how many pods name Hilbert as their scheduler and have no node; nobody will place them.
	Waiting int
}

// Options are what is removed beyond the rest.
type Options struct {
	// Definitions removes the custom resource definitions, and with them all Queues, Reservations, ResourceRequests, TidePools, ServiceProfiles, NodeConfigurations and reports.
	Definitions bool
}

// Action is what a step does.
type Action string

// The actions.
const (
	Delete       Action = "delete"
	StartCleanup Action = "start cleanup"
	AwaitCleanup Action = "await cleanup"
)

// Step is one step of a plan.
type Step struct {
	Action Action `json:"action"`
	// Why the step is there, and where it is.
	Why     string   `json:"why"`
	Objects []Object `json:"objects,omitempty"`
}

// The names of what a plan treats apart.
const (
	Agent    = "hilbert-agent"
	Watchdog = "hilbert-watchdog"
	Cleanup  = "hilbert-cleanup"
)

// Removal is a plan.
type Removal struct {
	Steps []Step `json:"steps"`
	// Notes are what somebody has to know or to do by hand.
	Notes []string `json:"notes,omitempty"`
}

// stages are the rest of the plan, after the nodes are clean: what goes together, in order.
var stages = []struct {
	why   string
	kinds []string
}{
	{"nobody places pods any more; those that run go on", []string{"Deployment", "DaemonSet", "Job", "PodDisruptionBudget", "ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "Issuer"}},
	{"what the workloads used", []string{"Service", "NetworkPolicy", "ConfigMap", "Secret", "Lease", "ResourceQuota"}},
	{"policies without their bindings refuse nothing", []string{"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"}},
	{"admission is as before", []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}},
	{"rights of accounts that have no workload any more", []string{"RoleBinding", "ClusterRoleBinding", "FlowSchema"}},
	{"roles and accounts", []string{"Role", "ClusterRole", "ServiceAccount", "PriorityLevelConfiguration"}},
}

// Plan returns what to do, in order.
func Plan(f *Facts, o Options) Removal {
	left := slices.Clone(f.Objects)
	var r Removal
	take := func(of func(Object) bool) (out []Object) {
		left = slices.DeleteFunc(left, func(x Object) bool {
			if of(x) {
				out = append(out, x)
				return true
			}
			return false
		})
		slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.String(), b.String()) })
		return out
	}
	remove := func(why string, objects []Object) {
		if len(objects) > 0 {
			r.Steps = append(r.Steps, Step{Delete, why, objects})
		}
	}
	remove("without hilbertd, no namespace of the cluster could be deleted", take(func(x Object) bool { return x.Kind == "APIService" }))
	agents := take(func(x Object) bool { return x.Kind == "DaemonSet" && (x.Name == Agent || x.Name == Watchdog) })
	cleanup := take(func(x Object) bool { return x.Kind == "DaemonSet" && x.Name == Cleanup })
	hasAgent := slices.ContainsFunc(agents, func(x Object) bool { return x.Name == Agent })
	switch {
	case hasAgent && len(cleanup) == 0: // started before its agents end: it takes their image and configuration, and waits until they have ended
		r.Steps = append(r.Steps, Step{StartCleanup, "gives back what the agents have set on their nodes; it waits until they have ended", nil})
	case hasAgent:
		r.Notes = append(r.Notes, "the DaemonSet "+Cleanup+" is there already, and is used as it is")
	case len(agents) > 0 && len(cleanup) == 0:
		r.Notes = append(r.Notes, "there are watchdogs and no agents: what agents have set on the nodes is not known to be given back; deploy/uninstall/cleanup.yaml does it")
	}
	remove("an agent would set again what the cleanup gives back", agents)
	if hasAgent || len(cleanup) > 0 {
		r.Steps = append(r.Steps, Step{AwaitCleanup, "every node is as if it had never had an agent", nil})
		if len(cleanup) == 0 {
			cleanup = []Object{{Kind: "DaemonSet", Namespace: f.Namespace, Name: Cleanup, Path: "/apis/apps/v1/namespaces/" + f.Namespace + "/daemonsets/" + Cleanup}}
		}
		remove("it is done", cleanup)
	}
	definitions := take(func(x Object) bool { return x.Kind == "CustomResourceDefinition" })
	for _, stage := range stages {
		remove(stage.why, take(func(x Object) bool {
			return slices.Contains(stage.kinds, x.Kind) && (o.Definitions || !strings.HasPrefix(x.Name, "sh.helm.release.v1.hilbert-crds."))
		}))
	}
	remove("the rest", take(func(x Object) bool { return !strings.HasPrefix(x.Name, "sh.helm.release.v1.") }))
	if o.Definitions {
		remove("asked for: with them go all Queues, Reservations, ResourceRequests, TidePools, ServiceProfiles, NodeConfigurations and CustomNodeResources", definitions)
	} else if len(definitions) > 0 {
		r.Notes = append(r.Notes, "the custom resource definitions stay, with all Queues, Reservations and ResourceRequests; --definitions removes them")
	}
	if f.Waiting > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("pods that wait for Hilbert: %d; nobody will place them: give them another spec.schedulerName", f.Waiting))
	}
	if len(r.Steps) > 0 {
		r.Notes = append(r.Notes,
			"if the container runtime requires the plugin hilbert, take it off that list before, else no pod starts without an agent",
			"the namespace "+f.Namespace+", and labels and taints of nodes, stay: kubectl delete namespace "+f.Namespace+"; kubectl label nodes --all hilbert.dev/agent- hilbert.dev/tide- hilbert.dev/tide-pool-; kubectl taint nodes --all hilbert.dev/tide-")
	}
	return r
}
