package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Policy is an admission policy that should be in force, and what is lost without it.
type Policy struct {
	Name string // KIND/NAME
	Lost string
	// Promises: without it, hilbertd promises nothing of nodes.
	Promises bool
}

const (
	validating = "ValidatingAdmissionPolicy/"
	mutating   = "MutatingAdmissionPolicy/"
)

// Policies returns those of deploy/policies.
func Policies() []Policy {
	return []Policy{
		{validating + "hilbert-binding", "anybody who may bind pods can forge placements", true},
		{validating + "hilbert-pod-create", "tenants can forge promises in new pods", true},
		{validating + "hilbert-pod-update", "tenants can forge promises in pods", true},
		{validating + "hilbert-cnr-own-node", "an agent can report for other nodes", true},
		{validating + "hilbert-cnr-configuration", "whoever may write a node's report can set the parameters of its agent", false},
		{validating + "hilbert-tide-nodes", "the controller may change whatever it likes of nodes, where it has the rights for TidePools", false},
		{validating + "hilbert-node-uplinks", "a kubelet can say that traffic leaves its node by another interface than it does, so that it has no limit", false},
		{validating + "hilbert-reclaimed", "reclaimed pods are admitted that no node can hold to what is lent", true},
		{validating + "hilbert-reclaimed-node", "reclaimed pods are admitted to nodes that lend nothing", true},
		{validating + "hilbert-required-plugin", "pods that need the agent are started where it is not", false},
		{validating + "hilbert-pod-status", "whoever may write the status of pods can forge what agents say", false},
		{validating + "hilbert-resource-claim", "whoever may create claims of devices as hilbertd can take any device in any namespace", false},
		{validating + "hilbert-reservation", "a Reservation may keep room with a priority, a level or a promise that its namespace's pods may not have", false},
		{validating + "hilbert-requested-cpu", "with scheduling.overcommit.mode auto a pod can take ten times its room of the CPU that nodes promise a second time", false},
		{mutating + "hilbert-reclaimed", "reclaimed pods must be written as docs/reference/policies.md says, else they are refused", false},
		{mutating + "hilbert-required-plugin", "pods that need the agent must name its plugin as required", false},
		{mutating + "hilbert-overcommit", "namespaces with the label hilbert.dev/overcommit-cpu-percent are not over-committed", false},
	}
}

func (e *examiner) policies() {
	var missing, loose []string
	promises := true
	for _, p := range Policies() {
		bound, ok := e.f.Policies[p.Name]
		switch {
		case ok && bound:
			continue
		case strings.HasPrefix(p.Name, mutating) && !e.f.Served[mutatingPolicies] && e.f.Unread[PartServed] == "":
			continue // the features tell
		case !ok:
			missing = append(missing, p.Name+" ("+p.Lost+")")
		default:
			loose = append(loose, p.Name+" ("+p.Lost+")")
		}
		promises = promises && !p.Promises
	}
	const cure = "kubectl apply -f deploy/policies, or policies.enabled=true of the chart"
	level := Warning
	if !promises {
		level = Error
		e.say(Error, "admission policies", "not all policies are in force without which hilbertd promises nothing: no exclusive CPUs, no devices, nothing lent",
			cure+"; docs/reference/policies.md says why")
	}
	if len(missing) > 0 {
		e.say(level, "admission policies", "missing: "+strings.Join(missing, "; "), cure)
	}
	if len(loose) > 0 {
		e.say(level, "admission policies", "without a binding: "+strings.Join(loose, "; "), cure)
	}
	if !e.told("admission policies") {
		e.say(OK, "admission policies", fmt.Sprintf("%d are in force; their text was not compared (the metric hilbert_promise_policies_in_force does that)", len(e.f.Policies)), "")
	}
}

// mostNames bounds how many nodes one finding names.
const mostNames = 10

func (e *examiner) reports() {
	var silent, never, blind []string
	for _, r := range e.f.Reports {
		switch {
		case r.Observed.IsZero():
			never = append(never, r.Node)
		case e.f.Now.Sub(r.Observed) >= e.f.StaleAfter:
			silent = append(silent, fmt.Sprintf("%s (%s)", r.Node, age(e.f.Now.Sub(r.Observed))))
		case r.NotReady != "":
			blind = append(blind, r.Node+" ("+r.NotReady+")")
		}
	}
	const look = "kubectl -n hilbert-system get pods -o wide -l app.kubernetes.io/name=hilbert-agent, and the log of the agent on that node"
	for _, x := range []struct {
		nodes []string
		what  string
	}{
		{silent, fmt.Sprintf("agents have been silent for %s or longer", age(e.f.StaleAfter))},
		{never, "agents have never reported"},
		{blind, "agents do not see or control their nodes"},
	} {
		if len(x.nodes) > 0 {
			e.say(Error, "agents", fmt.Sprintf("%d of %d %s: %s", len(x.nodes), len(e.f.Reports), x.what, few(x.nodes)), look)
		}
	}
	if !e.told("agents") {
		if len(e.f.Reports) == 0 {
			e.say(Info, "agents", "no node has an agent's report: nothing is known of NUMA nodes and devices, and nothing is lent", "")
		} else {
			e.say(OK, "agents", fmt.Sprintf("all %d report", len(e.f.Reports)), "")
		}
	}
}

// hardware says which promises about hardware nobody has seen to hold: whoever has such nodes can try them. Without agents nothing is promised.
func (e *examiner) hardware() {
	if _, unread := e.f.Unread[PartReports]; !unread && len(e.f.Reports) > 0 && len(e.f.Unseen) > 0 {
		e.say(Info, "hardware", "never tried on real hardware: "+strings.Join(e.f.Unseen, ", "), "run hilbert node probe on a node that has it")
	}
}

// nodes looks for nodes that should have an agent and have no report.
func (e *examiner) nodes() {
	if _, unread := e.f.Unread[PartReports]; unread {
		return
	}
	known := map[string]bool{}
	for _, r := range e.f.Reports {
		known[r.Node] = true
	}
	var without []string
	for _, node := range e.f.Labelled {
		if !known[node] {
			without = append(without, node)
		}
	}
	if len(without) > 0 {
		e.say(Error, "agents", fmt.Sprintf("%d nodes have the label hilbert.dev/agent=true and no report: %s", len(without), few(without)),
			"agent.enabled=true of the chart, and kubectl -n hilbert-system get pods -o wide")
	}
}

func few(names []string) string {
	slices.Sort(names)
	if len(names) > mostNames {
		return strings.Join(names[:mostNames], ", ") + fmt.Sprintf(" and %d more", len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}

const mutatingPolicies = "admissionregistration.k8s.io/v1/mutatingadmissionpolicies"

// Feature is an API of Kubernetes that a part of Hilbert needs; any of Served gives it.
type Feature struct {
	Served []string // GROUP/VERSION/RESOURCE
	Lost   string
	Cure   string
}

// Features returns what clusters may lack.
func Features() []Feature {
	return []Feature{
		{
			[]string{"scheduling.k8s.io/v1beta1/podgroups", "scheduling.x-k8s.io/v1alpha1/podgroups"},
			"gangs: no PodGroup is served", "Kubernetes 1.37 serves one; before, install the PodGroup of scheduling.x-k8s.io",
		},
		{
			[]string{mutatingPolicies},
			"reclaimed pods are not rewritten, and the required plugin is not added",
			"Kubernetes 1.36; before, write pods as docs/reference/policies.md says",
		},
		{[]string{"admissionregistration.k8s.io/v1/validatingadmissionpolicies"}, "promises: without policies hilbertd promises nothing", "Kubernetes 1.30 or later"},
		{[]string{"resource.k8s.io/v1/resourceclaims"}, "device claims (DRA)", "Kubernetes 1.34 or later"},
		{[]string{"storage.k8s.io/v1/csistoragecapacities"}, "free storage of drivers that report it", "Kubernetes 1.24 or later"},
	}
}

func (e *examiner) features() {
	for _, f := range Features() {
		if !slices.ContainsFunc(f.Served, func(name string) bool { return e.f.Served[name] }) {
			e.say(Warning, "features", "this cluster lacks "+strings.Join(f.Served, " and ")+". Lost: "+f.Lost, f.Cure)
		}
	}
	if !e.told("features") {
		e.say(OK, "features", "this cluster serves all that Hilbert can use", "")
	}
}
