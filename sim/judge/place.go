package judge

import (
	"fmt"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Occupant is what a pod takes of a node.
type Occupant struct {
	Requirements *facts.Requirements
	Grant        topology.Grant
}

// Refusal says why a pod with this grant must not join the others on the node; empty if it may.
func Refusal(n *facts.Node, on []Occupant, r *facts.Requirements, grant topology.Grant) string {
	if why := nodeRefusal(n, r); why != "" {
		return why
	}
	if why := grantRefusal(n, r, grant); why != "" {
		return why
	}
	return exceeds(n, on, r, grant)
}

// exceeds names the resource of which a pod asks for more than the others leave. It ignores resources that are over-committed without the pod.
func exceeds(n *facts.Node, on []Occupant, r *facts.Requirements, grant topology.Grant) string {
	for _, q := range append([]resource.Quantity{{Name: resource.NamePods, Amount: 1}}, r.Requests...) {
		var free int64
		for _, a := range n.Allocatable {
			if a.Name == q.Name {
				free += a.Amount
			}
		}
		for _, o := range on {
			free -= Request(o.Requirements, q.Name) + beyondRequests(o.Requirements, &o.Grant.NUMANodes, q.Name)
		}
		if asked := q.Amount + beyondRequests(r, &grant.NUMANodes, q.Name); asked > 0 && asked > free {
			return fmt.Sprintf("%s: %d asked, %d free", q.Name, asked, free)
		}
	}
	for _, port := range r.Ports {
		for _, o := range on {
			if slices.ContainsFunc(o.Requirements.Ports, func(taken facts.HostPort) bool { return PortsClash(port, taken) }) {
				return fmt.Sprintf("host port %s/%d", port.Protocol, port.Port)
			}
		}
	}
	for i, free := range gpuCounters(n, on) {
		if grant.GPUs&(1<<i) != 0 && int(grant.Milli) > free {
			return fmt.Sprintf("GPU %d: %d milli asked, %d free", i, grant.Milli, free)
		}
	}
	return ""
}

// Request is how much of a resource a pod asks for.
func Request(r *facts.Requirements, name string) int64 {
	var sum int64
	if name == resource.NamePods {
		sum = 1
	}
	for _, q := range r.Requests {
		if q.Name == name {
			sum += q.Amount
		}
	}
	return sum
}

// Fits says whether some grant lets a pod join the others on the node. It answers no for every pod with dedicated cores, because it knows no
// NUMA nodes, and for every pod that asks for what only a node's agent gives out.
func Fits(n *facts.Node, on []Occupant, r *facts.Requirements) bool {
	if r.NUMANodes.CPUs > 0 || r.GPU.NIC.Count > 0 || r.GPU.Isolation > topology.Accounting || r.GPU.Memory > 0 || r.GPU.Near.Required {
		return false
	}
	grant, ok := SomeGrant(n, on, r.GPU)
	return ok && Refusal(n, on, r, grant) == ""
}

// SomeGrant finds GPUs for a request: the first that have enough left.
func SomeGrant(n *facts.Node, on []Occupant, want topology.Request) (topology.Grant, bool) {
	if want.Milli == 0 && want.Whole == 0 {
		return topology.Grant{}, true
	}
	free := gpuCounters(n, on)
	grant := topology.Grant{Milli: want.Milli, Isolation: topology.Accounting}
	need := 1
	if want.Milli == 0 {
		grant.Isolation = topology.IsolationAny
		grant.Milli, need = topology.FullGPU, int(want.Whole)
	} else if !n.GPU.Shareable {
		return topology.Grant{}, false
	}
	for i := 0; i < n.GPU.GPUs && need > 0; i++ {
		if free[i] >= int(grant.Milli) {
			grant.GPUs |= 1 << i
			need--
		}
	}
	return grant, need == 0
}

func gpuCounters(n *facts.Node, on []Occupant) []int {
	free := make([]int, topology.MaxGPUs)
	for i := range n.GPU.GPUs {
		free[i] = 1000
	}
	for _, o := range on {
		for i := range free {
			if o.Grant.GPUs&(1<<i) != 0 {
				free[i] -= int(o.Grant.Milli)
			}
		}
	}
	return free
}

// nodeRefusal says which property of the node, or of the pod itself, keeps the pod away.
func nodeRefusal(n *facts.Node, r *facts.Requirements) string {
	switch {
	case r.Impossible != "":
		return "an impossible pod: " + r.Impossible
	case len(r.Unsupported) > 0:
		return "an unsupported constraint: " + r.Unsupported[0]
	case n.Unschedulable && !tolerates(r, facts.Taint{Key: "node.kubernetes.io/unschedulable", Effect: facts.NoSchedule}):
		return "the node is unschedulable"
	}
	if why := taintRefusal(n, r); why != "" {
		return why
	}
	return affinityRefusal(n, r)
}

// taintRefusal names a taint of the node that the pod does not tolerate.
func taintRefusal(n *facts.Node, r *facts.Requirements) string {
	for _, taint := range n.Taints {
		if taint.Effect != facts.PreferNoSchedule && !tolerates(r, taint) {
			return "taint " + taint.Key
		}
	}
	return ""
}

// affinityRefusal says why the pod's node selector or node affinity does not select the node.
func affinityRefusal(n *facts.Node, r *facts.Requirements) string {
	for _, l := range r.NodeSelector {
		if value, ok := n.Labels[l.Key]; !ok || value != l.Value {
			return "node selector " + l.Key
		}
	}
	if r.Required != nil && !slices.ContainsFunc(r.Required, func(t facts.Term) bool { return termMatches(n, t) }) {
		return "required node affinity"
	}
	return ""
}

func tolerates(r *facts.Requirements, taint facts.Taint) bool {
	return slices.ContainsFunc(r.Tolerations, func(t facts.Toleration) bool {
		key := t.Key == taint.Key || t.Key == "" && t.Exists
		return key && (t.Exists || t.Value == taint.Value) && (t.Effect == 0 || t.Effect == taint.Effect)
	})
}

func termMatches(n *facts.Node, t facts.Term) bool {
	for _, e := range t.Expressions {
		if value, ok := n.Labels[e.Key]; !expressionMatches(e, value, ok) {
			return false
		}
	}
	for _, e := range t.Fields {
		if e.Key != "metadata.name" || !expressionMatches(e, n.Name, true) {
			return false
		}
	}
	return len(t.Expressions)+len(t.Fields) > 0
}

func expressionMatches(e facts.Requirement, value string, ok bool) bool {
	listed := slices.Contains(e.Values, value)
	switch e.Operator {
	case facts.In:
		return ok && listed
	case facts.NotIn:
		return !ok || !listed
	case facts.Exists:
		return ok
	case facts.DoesNotExist:
		return !ok
	default: // Gt, Lt: below
	}
	if !ok || len(e.Values) != 1 {
		return false
	}
	have, err1 := strconv.ParseInt(value, 10, 64)
	want, err2 := strconv.ParseInt(e.Values[0], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	return e.Operator == facts.Gt && have > want || e.Operator == facts.Lt && have < want
}

// labelsMatch says whether labels satisfy an expression.
func labelsMatch(labels []facts.Label, e facts.Requirement) bool {
	at := slices.IndexFunc(labels, func(l facts.Label) bool { return l.Key == e.Key })
	value := ""
	if at >= 0 {
		value = labels[at].Value
	}
	return expressionMatches(e, value, at >= 0)
}

// grantRefusal says what is wrong with the GPUs that a pod was given.
func grantRefusal(n *facts.Node, r *facts.Requirements, grant topology.Grant) string {
	count := 0
	for i := range topology.MaxGPUs {
		if grant.GPUs&(1<<i) == 0 {
			continue
		}
		count++
		if i >= n.GPU.GPUs {
			return fmt.Sprintf("GPU %d of %d", i, n.GPU.GPUs)
		}
	}
	want, milli, isolation := int(r.GPU.Whole), int16(1000), topology.IsolationAny
	if r.GPU.Milli > 0 {
		want, milli, isolation = 1, r.GPU.Milli, topology.Accounting
		if !n.GPU.Shareable {
			return "a part of a GPU that is not shared"
		}
	}
	if count != want || count > 0 && grant.Milli != milli {
		return fmt.Sprintf("%d GPUs at %d milli where %d at %d are asked for", count, grant.Milli, want, milli)
	}
	if count > 0 && grant.Isolation != isolation { // counters are all that there is: nothing limits a part, and a whole GPU has no other user
		return fmt.Sprintf("GPUs with isolation %v where %v is given", grant.Isolation, isolation)
	}
	return ""
}

// Overcommitted names what the pods on a node hold more of than there is; empty if nothing.
func Overcommitted(n *facts.Node, on []Occupant) string {
	asked := map[string]int64{resource.NamePods: int64(len(on))}
	var ports []facts.HostPort
	for _, o := range on {
		for _, q := range o.Requirements.Requests {
			asked[q.Name] += q.Amount
		}
		for _, p := range o.Requirements.Ports {
			if slices.ContainsFunc(ports, func(taken facts.HostPort) bool { return PortsClash(p, taken) }) {
				return fmt.Sprintf("host port %s/%d", p.Protocol, p.Port)
			}
			ports = append(ports, p)
		}
	}
	for _, q := range n.Allocatable {
		if asked[q.Name] > q.Amount {
			return fmt.Sprintf("%s: %d asked of %d", q.Name, asked[q.Name], q.Amount)
		}
		delete(asked, q.Name)
	}
	for name, amount := range asked {
		if amount > 0 && !HeadroomOnly(name) { // headroom may fall below what runs
			return fmt.Sprintf("%s: %d asked of none", name, amount)
		}
	}
	for i, free := range gpuCounters(n, on) {
		if free < 0 {
			return fmt.Sprintf("GPU %d: %d milli too much", i, -free)
		}
	}
	return ""
}

// PortsClash says whether two host ports conflict.
func PortsClash(p, q facts.HostPort) bool {
	return p.Port == q.Port && p.Protocol == q.Protocol && (p.IP == q.IP || p.IP == facts.AnyIP || q.IP == facts.AnyIP)
}

// WithHeadroom returns the node with what its agent lends among its allocatable resources: a copy, if it lends anything.
func WithHeadroom(n *facts.Node, h *facts.Headroom) *facts.Node {
	if h.State != facts.HeadroomOpen {
		return n
	}
	with := *n
	with.Allocatable = append(slices.Clip(with.Allocatable),
		resource.Quantity{Name: spec.ResourceReclaimedCPU, Amount: h.MilliCPU}, resource.Quantity{Name: spec.ResourceReclaimedMemory, Amount: h.Memory})
	return &with
}

// HeadroomOnly says whether a resource exists only as headroom, so that node.status does not count it.
func HeadroomOnly(name string) bool {
	return name == spec.ResourceReclaimedCPU || name == spec.ResourceReclaimedMemory
}

// WholeGPUs is how many whole GPUs the pods ask for.
func WholeGPUs(on []Occupant) (sum int) {
	for _, o := range on {
		sum += int(o.Requirements.GPU.Whole)
	}
	return sum
}
