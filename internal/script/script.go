// Package script reads nodes and pods from the commands of datadriven transcripts, so that the tests of cluster, schedule and sim
// write them in one way.
//
//	node n1 cpu=4 mem=8 pods=10 gpus=2 share taint=key:NoSchedule zone=a cordon
//	pod p1 cpu=1 mem=2 gpu=500 prio=10 at=3 node=n1 gpuset=0,1 zone=a tolerate=key port=80 gated foreign mirror finished deleting
//	pod p2 started=5 never nominated=n1 ns=team unit=g subgroup=a deadline=60
//	pod p3 cpu=4 mem=8 dedicated=bound node=n1 numaNodes=0:4/8192Mi
//	pod p4 gpu=250 gpumem=10 isolation=soft near=switch required nics=1 rdma nicbw=25000 vf node=n1 gpus=2:250/10240Mi cards=1:25000/vf
//
// cpu is in cores (decimals allowed), mem in GiB, gpu in thousandths; at is the creation time and started the start, in seconds.
//
// Invariants: an unknown argument fails the test, so that a typing error cannot weaken it.
//
// It is for tests only and understands no more than they need.
package script

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Node reads a node command.
func Node(t testing.TB, d *datadriven.TestData) *facts.Node {
	t.Helper()
	n := &facts.Node{Name: d.CmdArgs[0].Key, Labels: map[string]string{}}
	amounts := map[string]int64{resource.NamePods: 110}
	for _, arg := range d.CmdArgs[1:] {
		value := first(arg.Vals)
		switch arg.Key {
		case "cpu":
			amounts[resource.NameCPU] = scaled(t, d, value, 1000)
		case "mem":
			amounts[resource.NameMemory] = scaled(t, d, value, 1<<30)
		case "pods":
			amounts[resource.NamePods] = scaled(t, d, value, 1)
		case "gpus":
			n.GPU.GPUs = int(scaled(t, d, value, 1))
		case "share":
			n.GPU.Shareable = true
		case "zone", "rack", "block", "model":
			n.Labels[arg.Key] = value
		case "cordon":
			n.Unschedulable = true
		case "taint":
			key, effect, _ := strings.Cut(value, ":")
			n.Taints = append(n.Taints, facts.Taint{Key: key, Effect: effects[effect]})
		default:
			if !strings.Contains(arg.Key, "/") {
				d.Fatalf(t, "node: unknown argument %q", arg.Key)
			}
			amounts[arg.Key] = scaled(t, d, value, 1)
		}
	}
	for _, name := range sortedKeys(amounts) {
		n.Allocatable = append(n.Allocatable, resource.Quantity{Name: name, Amount: amounts[name]})
	}
	return n
}

var effects = map[string]facts.TaintEffect{
	"NoSchedule": facts.NoSchedule, "PreferNoSchedule": facts.PreferNoSchedule, "NoExecute": facts.NoExecute,
}

// Pod reads a pod command; the UID is the name.
func Pod(t testing.TB, d *datadriven.TestData) facts.Pod {
	t.Helper()
	name := d.CmdArgs[0].Key
	r := &facts.Requirements{}
	pod := facts.Pod{UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Requirements: r}
	amounts := map[string]int64{}
	for _, arg := range d.CmdArgs[1:] {
		if arg.Key == "claims" {
			pod.Claims = claims(arg.Vals)
			continue
		}
		if arg.Key == "resourceClaims" {
			pod.ResourceClaims = resourceClaims(arg.Vals)
			continue
		}
		if !podField(t, d, &pod, arg.Key, first(arg.Vals)) && !requirement(t, d, r, amounts, arg) {
			d.Fatalf(t, "pod: unknown argument %q", arg.Key)
		}
	}
	for _, name := range sortedKeys(amounts) {
		r.Requests = append(r.Requests, resource.Quantity{Name: name, Amount: amounts[name]})
		if strings.Contains(name, "/") && pod.Ours {
			pod.Extended = append(pod.Extended, facts.ExtendedContainer{Index: len(pod.Extended), Name: "c", Requests: []facts.ExtendedRequest{{Resource: name, Count: amounts[name]}}})
		}
	}
	if r.GPU.Milli > 0 {
		r.GPU.Tenant = topology.TenantOf(pod.Namespace)
	}
	askNUMANodes(t, d, r, amounts)
	askResources(r)
	r.ScoreCPU, r.ScoreMemory = amounts[resource.NameCPU], amounts[resource.NameMemory]
	for _, arg := range d.CmdArgs[1:] {
		if arg.Key == "gpuset" {
			var grant topology.Grant
			if err := grant.ParseGPUs(strings.Join(arg.Vals, ","), &r.GPU); err != nil {
				d.Fatalf(t, "pod: gpuset: %v", err)
			}
			pod.Grant.GPUs, pod.Grant.Milli = grant.GPUs, grant.Milli
		}
		recordedDevices(t, d, &pod, arg)
		if arg.Key == "numaNodes" {
			pod.Grant.NUMANodes = numaGrant(t, d, strings.Join(arg.Vals, ","))
		}
		if arg.Key == "recorded" {
			var list []topology.Resource
			for _, value := range arg.Vals {
				for name, a := range resourceGrant(t, d, value).All() {
					list = append(list, topology.Resource{Name: name, Amounts: a})
				}
			}
			pod.Grant.Resources = topology.MakeResourceGrant(list)
		}
	}
	return pod
}

func podField(t testing.TB, d *datadriven.TestData, pod *facts.Pod, key, value string) bool {
	t.Helper()
	switch key {
	case "node":
		pod.Node = value
	case "prio":
		pod.Priority = int32(scaled(t, d, value, 1))
	case "at":
		pod.Created = scaled(t, d, value, 1e9)
	case "gated":
		pod.Gated = true
	case "mirror":
		pod.Mirror = true
	case "foreign":
		pod.Ours = false
	case "finished":
		pod.Finished = true
	case "deleting":
		pod.Deleting = true
	case "never":
		pod.NeverPreempts = true
	case "nominated":
		pod.Nominated = value
	case "started":
		pod.Started = scaled(t, d, value, 1e9)
	case "scheduled":
		pod.Scheduled = scaled(t, d, value, 1e9)
	case "ns":
		pod.Namespace = value
	case "unit":
		pod.Unit = value
	case "controller": // kind/name
		kind, name, _ := strings.Cut(value, "/")
		pod.Controller = facts.Controller{Kind: kind, Name: name}
	case "label": // key=value
		key, label, _ := strings.Cut(value, "=")
		pod.Labels = append(pod.Labels, facts.Label{Key: key, Value: label})
	case "took": // the placeholder that its Binding names
		pod.Placeholder = facts.UID(value)
	case "subgroup":
		pod.Subgroup = value
	case "deadline":
		pod.Deadline = scaled(t, d, value, 1e9)
	case "reported":
		pod.Reported.Reason = value
	default:
		return false
	}
	return true
}

func requirement(t testing.TB, d *datadriven.TestData, r *facts.Requirements, amounts map[string]int64, arg datadriven.CmdArg) bool {
	t.Helper()
	value := first(arg.Vals)
	switch arg.Key {
	case "cpu":
		amounts[resource.NameCPU] = scaled(t, d, value, 1000)
	case "mem":
		amounts[resource.NameMemory] = scaled(t, d, value, 1<<30)
	case "reclaim": // cpus and GiB
		r.Reclaimed = true
		amounts[spec.ResourceReclaimedCPU], amounts[spec.ResourceReclaimedMemory] = scaled(t, d, arg.Vals[0], 1000), scaled(t, d, arg.Vals[1], 1<<30)
	case "gpu":
		milli := scaled(t, d, value, 1)
		r.GPU = topology.Request{Milli: int16(milli % topology.FullGPU), Whole: int8(milli / topology.FullGPU)}
	case "gpuset", "dedicated", "bandwidth", "shared", "numaNodes", "gpus", "cards", "recorded":
	case "zone":
		r.NodeSelector = []facts.Label{{Key: "zone", Value: value}}
	case "prefer":
		r.Preferred = []facts.WeightedTerm{{Weight: 10, Term: facts.Term{
			Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{value}}},
		}}}
	case "tolerate":
		r.Tolerations = append(r.Tolerations, facts.Toleration{Key: value, Exists: true})
	case "port":
		r.Ports = append(r.Ports, facts.HostPort{Protocol: "TCP", IP: facts.AnyIP, Port: int32(scaled(t, d, value, 1))})
	case "unsupported":
		r.Unsupported = append(r.Unsupported, value)
	case "impossible":
		r.Impossible = value
	default:
		if askDevices(t, d, &r.GPU, arg) {
			return true
		}
		if !strings.Contains(arg.Key, "/") {
			return false
		}
		amounts[arg.Key] = scaled(t, d, value, 1)
	}
	return true
}

func scaled(t testing.TB, d *datadriven.TestData, text string, unit float64) int64 {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.Fatalf(t, "%q is not a number", text)
	}
	return int64(value * unit)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Dump renders the ledger: each node with what is requested of what is allocatable and its pods, then pods without a node.
func Dump(s *cluster.Store) string {
	var b strings.Builder
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		node := s.Node(slot)
		if node == nil {
			continue
		}
		fmt.Fprintf(&b, "%s", node.Name)
		for kind := range s.Kinds() {
			k := resource.Kind(kind)
			if s.Allocatable(slot, k) != 0 || s.Requested(slot, k) != 0 {
				fmt.Fprintf(&b, " %s=%s/%s", s.KindName(k), amount(k, s.Requested(slot, k)), amount(k, s.Allocatable(slot, k)))
			}
		}
		if shape := s.Shape(slot); shape.Devices != nil {
			b.WriteString(devices(&s.State, slot))
		} else if shape.GPUs > 0 {
			fmt.Fprintf(&b, " gpus free=%v", s.GPUs(slot)[:shape.GPUs])
		}
		b.WriteString(numaNodes(&s.State, slot) + resourcesLeft(&s.State, slot) + ":")
		for _, pod := range s.PodsOn(slot) {
			fmt.Fprintf(&b, " %s(%s%s%s)", pod.UID, pod.Phase, grant(pod), waiting(pod))
		}
		b.WriteString("\n")
	}
	return b.String() + dumpLoose(s)
}

func dumpLoose(s *cluster.Store) string {
	loose := map[string]string{}
	s.EachPod(func(pod *cluster.Pod) {
		if s.Slot(pod.Node()) == cluster.NoSlot {
			loose[string(pod.UID)] = fmt.Sprintf("%s(%s %s)", pod.UID, pod.Phase, pod.Node())
		}
	})
	var b strings.Builder
	for _, uid := range sortedKeys(loose) {
		b.WriteString("-: " + strings.Replace(loose[uid], " )", ")", 1) + "\n")
	}
	return b.String()
}

func grant(pod *cluster.Pod) string {
	var text string
	g := pod.Grant()
	switch {
	case g.Memory > 0 || g.Instance > 0:
		text += " gpu " + g.GPUText()
	case g.GPUs != 0:
		text += " gpu " + g.String()
	}
	if g.NICs != 0 {
		text += " nic " + g.NICText()
	}
	if !g.NUMANodes.IsZero() {
		text += " NUMA " + g.NUMANodes.String()
	}
	if g.Resources != "" {
		text += " " + string(g.Resources)
	}
	switch {
	case pod.Moved():
		text += " moved"
	case pod.Confirmed():
		text += " confirmed"
	}
	return text
}

// waiting names the victims that a pod waits for.
func waiting(pod *cluster.Pod) string {
	if !pod.Obliged() {
		return ""
	}
	var b strings.Builder
	b.WriteString(" after")
	for _, victim := range pod.Victims() {
		b.WriteString(" " + string(victim.UID))
	}
	return b.String()
}

func amount(kind resource.Kind, value int64) string {
	switch kind {
	case resource.CPU:
		return strconv.FormatFloat(float64(value)/1000, 'g', -1, 64)
	case resource.Memory:
		return strconv.FormatFloat(float64(value)/(1<<30), 'g', -1, 64) + "Gi"
	default:
		return strconv.FormatInt(value, 10)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sortLabels(list []facts.Label) {
	slices.SortFunc(list, func(a, b facts.Label) int { return strings.Compare(a.Key, b.Key) })
}
