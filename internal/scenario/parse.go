package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// parser turns lines into steps. It remembers what an edit of a queue builds on.
type parser struct {
	queues map[string]facts.Queue
	nodes  int
	pods   int
}

func newParser() *parser { return &parser{queues: make(map[string]facts.Queue)} }

// arguments are the words of one command. What is not taken by the end is a mistake.
type arguments struct {
	command string
	words   []string          // without a value
	values  map[string]string // KEY=VALUE
	err     error             // the first
}

// command reads one line; nil for one that has only text for people.
func (p *parser) command(line string) (Step, error) {
	if at := strings.IndexByte(line, '#'); at == 0 || at > 0 && line[at-1] == ' ' {
		line = line[:at]
	}
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // a comment is no step and no mistake
	}
	a := &arguments{command: fields[0], values: make(map[string]string)}
	for _, field := range fields[1:] {
		key, value, valued := strings.Cut(field, "=")
		switch _, twice := a.values[key]; {
		case !valued:
			a.words = append(a.words, field)
		case twice:
			return nil, fmt.Errorf("%s stands twice", key)
		default:
			a.values[key] = value
		}
	}
	step := p.step(a)
	switch {
	case a.err != nil:
		return nil, fmt.Errorf("%s: %w", a.command, a.err)
	case len(a.words) > 0:
		return nil, fmt.Errorf("%s: %q is not understood", a.command, a.words[0])
	case len(a.values) > 0:
		return nil, fmt.Errorf("%s: %s= is not understood", a.command, slices.Sorted(maps.Keys(a.values))[0])
	}
	return step, nil
}

func (p *parser) step(a *arguments) Step {
	switch a.command {
	case "nodes":
		return p.addNodes(a)
	case "queue":
		return p.queue(a, facts.Queue{Weight: 1})
	case "edit":
		old, ok := p.queues[a.peek()]
		if !ok {
			a.fail("there is no queue %q yet: write queue %s first", a.peek(), a.peek())
		}
		return p.queue(a, old)
	case "namespace":
		return namespace(a)
	case "gang":
		return p.gang(a)
	case "pods":
		return p.addPods(a)
	case "reservation":
		return p.reservation(a)
	case "scale":
		ns, name := a.named()
		return Scale{ns, name, a.whole("size", 0, MaxPods)}
	case "delete":
		return remove(a)
	case "finish":
		ns, name := a.named()
		return Finish{ns, name, a.optional("count", 0)}
	case "kill-node":
		return node(a, Kill)
	case "revive-node":
		if len(a.words) == 0 {
			return SetNode{Do: Revive}
		}
		return node(a, Revive)
	case "cordon":
		return node(a, Cordon)
	case "uncordon":
		return node(a, Uncordon)
	case "restart":
		return Restart{}
	case "run":
		text := a.word()
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			a.fail("want how long, for example run 30s; found %q", text)
		}
		return Run{d}
	case "show":
		return Show{}
	}
	a.fail("no such command; there are nodes, queue, edit, namespace, gang, pods, reservation, scale, delete, finish, kill-node, revive-node, cordon, uncordon, restart, run, show")
	return nil
}

func (p *parser) addNodes(a *arguments) Step {
	prefix := a.word()
	count, rack, block := a.whole("count", 1, MaxNodes), a.optional("rack", 0), a.optional("block", 0)
	if p.nodes += count; p.nodes > MaxNodes {
		a.fail("more than %d nodes", MaxNodes)
		return nil
	}
	amounts := []resource.Quantity{
		{Name: resource.NameCPU, Amount: a.scaled("cpu", 1000)},
		{Name: resource.NameMemory, Amount: a.scaled("mem", 1<<30)},
		{Name: resource.NamePods, Amount: int64(a.optional("pods", 110))},
	}
	gpu := topology.Shape{GPUs: a.optional("gpus", 0), Shareable: a.flag("share")}
	if gpu.GPUs > topology.MaxGPUs {
		a.fail("gpus: want at most %d, found %d", topology.MaxGPUs, gpu.GPUs)
	}
	if gpu.GPUs > 0 {
		gpu.Model = a.text("model", "H800")
	}
	step := AddNodes{}
	for i := range count {
		n := &facts.Node{Name: fmt.Sprintf("%s-%d", prefix, i), Allocatable: amounts, GPU: gpu, Labels: make(map[string]string)}
		n.Labels[facts.HostnameKey] = n.Name
		if gpu.GPUs > 0 {
			n.Labels[spec.LabelGPUModel] = gpu.Model
		}
		if rack > 0 {
			n.Labels[LabelRack] = fmt.Sprintf("%s-r%d", prefix, i/rack)
		}
		if rack > 0 && block > 0 {
			n.Labels[LabelBlock] = fmt.Sprintf("%s-b%d", prefix, i/rack/block)
		}
		step.Nodes = append(step.Nodes, n)
	}
	return step
}

// Labels of the network, as spec.Topology has them by default.
const (
	LabelBlock = "topology.hilbert.dev/block"
	LabelRack  = "topology.hilbert.dev/rack"
)

// level reads a label; block, rack and host are short for the usual ones, model for the GPU's.
func (a *arguments) level(key string) string {
	switch value := a.text(key, ""); value {
	case "block":
		return LabelBlock
	case "rack":
		return LabelRack
	case "host":
		return facts.HostnameKey
	case "model":
		return spec.LabelGPUModel
	default:
		return value
	}
}

func (p *parser) queue(a *arguments, f facts.Queue) Step {
	f.Name = a.word()
	f.Parent = a.text("parent", f.Parent)
	if list, ok := a.amounts("guaranteed"); ok {
		f.Guaranteed = list
	}
	if list, ok := a.amounts("max"); ok {
		f.Max = list
	}
	f.Weight = int64(a.optional("weight", int(f.Weight)))
	f.BorrowsNothing = a.choice("borrowing", f.BorrowsNothing, "allowed", "never")
	f.KeepsBorrowed = a.choice("reclaim", f.KeepsBorrowed, "allowed", "never")
	if text := a.text("min-runtime", ""); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			a.fail("min-runtime: want a duration such as 90s; found %q", text)
		}
		f.ReclaimMinRuntime = new(int64(d))
	}
	f.NeverPreempts = a.choice("preemption", f.NeverPreempts, "lower-priority", "never")
	f.HalfLife = int64(a.duration("halflife", time.Duration(f.HalfLife)))
	if text := a.text("sort", ""); text != "" {
		sort, ok := map[string]facts.SortPolicy{
			"priority": facts.PriorityFIFO, "fifo": facts.FIFO, "fair": facts.Fair, "history": facts.FairHistory, "smallest": facts.SmallestFirst,
		}[text]
		if !ok {
			a.fail("sort: want priority, fifo, fair, history or smallest; found %q", text)
		}
		f.Sort = sort
	}
	p.queues[f.Name] = f
	return SetQueue{&f}
}

func namespace(a *arguments) Step {
	n := facts.Namespace{Name: a.word()}
	if queue := a.text("queue", ""); queue != "" {
		n.Labels = []facts.Label{{Key: spec.LabelQueue, Value: queue}}
	}
	return SetNamespace{n}
}

func (p *parser) gang(a *arguments) Step {
	g := AddGang{Pod: a.template()}
	g.Unit.Namespace, g.Unit.Name = a.named()
	g.Unit.UID = facts.UID("podgroup-" + g.Unit.String())
	least := a.whole("min", 1, MaxPods)
	g.Size = a.optional("size", least)
	g.Unit.MinMember = int32(least)
	g.Unit.Timeout = int64(a.duration("timeout", 0))
	g.Unit.Indivisible = a.flag("indivisible")
	g.Unit.Divisible = !g.Unit.Indivisible && a.flag("divisible")
	g.Unit.Priority, g.Unit.Prioritized, g.Unit.NeverPreempts = g.Pod.Priority, g.Pod.Priority != 0, g.Pod.NeverPreempts
	g.Unit.Topology = facts.Packing{Required: a.level("required"), Preferred: a.level("preferred"), Spread: a.level("spread"), Uniform: a.level("uniform")}
	g.Unit.SubgroupTopology = facts.Packing{Required: a.level("subgroup-required"), Preferred: a.level("subgroup-preferred")}
	g.Subgroups = a.optional("subgroups", 0)
	p.count(a, g.Size)
	return g
}

func (p *parser) addPods(a *arguments) Step {
	s := AddPods{Pod: a.template(), Foreign: a.flag("foreign"), On: a.text("on", "")}
	s.Namespace, s.Name = a.named()
	s.Count = a.optional("count", 1)
	if s.Foreign == (s.On == "") {
		a.fail("foreign pods say the node that they are bound to: foreign on=NODE; others do not")
	}
	p.count(a, s.Count)
	return s
}

func (p *parser) reservation(a *arguments) Step {
	r := AddReservation{Pod: a.template(), Count: 1, For: a.text("for", ""), TTL: a.duration("ttl", 0)}
	if _, ok := a.values["count"]; ok {
		r.Count = a.whole("count", 1, MaxPlaces)
	}
	r.Namespace, r.Name = a.named()
	if r.For == "" {
		a.fail("want whose pods may have the places: for=NAME of a gang or of pods of the namespace")
	}
	if r.Pod.Duration > 0 || r.Pod.Deadline > 0 || r.Pod.NeverPreempts {
		a.fail("nothing runs in a place that is kept, and nobody is evicted for it: leave duration, deadline and never-preempts out")
	}
	p.count(a, r.Count)
	return r
}

func (p *parser) count(a *arguments, more int) {
	if p.pods += more; p.pods > MaxPods {
		a.fail("more than %d pods", MaxPods)
	}
}

// template reads what gangs and sets say of their pods.
func (a *arguments) template() Template {
	t := Template{
		CPU: a.scaled("cpu", 1000), Memory: a.scaled("mem", 1<<30), Priority: int32(a.optional("priority", 0)), NeverPreempts: a.flag("never-preempts"),
		Duration: a.duration("duration", 0), Deadline: a.duration("deadline", 0),
	}
	switch milli := a.scaled("gpu", topology.FullGPU); {
	case milli >= topology.FullGPU && milli%topology.FullGPU == 0 && milli <= topology.MaxGPUs*topology.FullGPU:
		t.GPU.Whole = int8(milli / topology.FullGPU)
	case milli > 0 && milli < topology.FullGPU:
		t.GPU.Milli = int16(milli)
	case milli != 0:
		a.fail("gpu: want a part of one, or up to %d whole ones", topology.MaxGPUs)
	}
	if model := a.text("model", ""); model != "" {
		t.Selector = append(t.Selector, facts.Label{Key: spec.LabelGPUModel, Value: model})
	}
	return t
}

func remove(a *arguments) Step {
	kind := Kind(a.word())
	switch kind {
	case OfQueue:
		return Delete{kind, "", a.word()}
	case OfGang, OfPodGroup, OfPods, OfPod, OfReservation:
		ns, name := a.named()
		return Delete{kind, ns, name}
	}
	a.fail("want gang, podgroup, pods, pod, reservation or queue; found %q", kind)
	return nil
}

func node(a *arguments, do NodeChange) Step {
	s := SetNode{Do: do}
	if of := a.text("of", ""); of != "" {
		s.Of.Namespace, s.Of.Name = a.split(of)
		return s
	}
	s.Name = a.word()
	return s
}

var errNoName = errors.New("a name is missing")

func (a *arguments) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

func (a *arguments) peek() string {
	if len(a.words) == 0 {
		return ""
	}
	return a.words[0]
}

// word takes the first word.
func (a *arguments) word() string {
	if len(a.words) == 0 {
		if a.err == nil {
			a.err = errNoName
		}
		return ""
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

// named takes the first word, as namespace/name.
func (a *arguments) named() (ns, name string) { return a.split(a.word()) }

func (a *arguments) split(text string) (ns, name string) {
	ns, name, ok := strings.Cut(text, "/")
	if !ok || ns == "" || name == "" {
		a.fail("want NAMESPACE/NAME, found %q", text)
	}
	return ns, name
}

// flag takes a word that stands anywhere.
func (a *arguments) flag(word string) bool {
	at := slices.Index(a.words, word)
	if at < 0 {
		return false
	}
	a.words = slices.Delete(a.words, at, at+1)
	return true
}

func (a *arguments) text(key, otherwise string) string {
	value, ok := a.values[key]
	if !ok {
		return otherwise
	}
	delete(a.values, key)
	return value
}

// whole takes a number that must be there.
func (a *arguments) whole(key string, least, most int) int {
	text, ok := a.values[key]
	delete(a.values, key)
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < least || n > most {
		a.fail("%s: want %s=N from %d to %d, found %q", key, key, least, most, text)
		return least
	}
	return n
}

// optional takes a number that need not be there.
func (a *arguments) optional(key string, otherwise int) int {
	if _, ok := a.values[key]; !ok {
		return otherwise
	}
	return a.whole(key, 0, 1<<30)
}

// scaled takes an amount, 0 if it is not there.
func (a *arguments) scaled(key string, unit float64) int64 {
	text, ok := a.values[key]
	if !ok {
		return 0
	}
	delete(a.values, key)
	return a.amount(key, text, unit)
}

const mostUnits = 1e9 // cores, GiB or GPUs: what anybody has, and no overflow

func (a *arguments) amount(key, text string, unit float64) int64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= mostUnits) {
		a.fail("%s: want a number from 0 to 1e9, found %q", key, text)
		return 0
	}
	return int64(x * unit)
}

func (a *arguments) duration(key string, otherwise time.Duration) time.Duration {
	text, ok := a.values[key]
	if !ok {
		return otherwise
	}
	delete(a.values, key)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		a.fail("%s: want a duration such as 10m, found %q", key, text)
	}
	return d
}

// choice takes one of two words.
func (a *arguments) choice(key string, otherwise bool, no, yes string) bool {
	switch text := a.text(key, ""); text {
	case "":
		return otherwise
	case no:
		return false
	case yes:
		return true
	default:
		a.fail("%s: want %s or %s, found %q", key, no, yes, text)
		return false
	}
}

// amounts takes a list such as cpu:8,mem:32,gpu:4, in cores, GiB and GPUs; an empty one is nothing at all.
func (a *arguments) amounts(key string) ([]resource.Quantity, bool) {
	text, ok := a.values[key]
	if !ok {
		return nil, false
	}
	delete(a.values, key)
	var list []resource.Quantity
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, ":")
		switch name {
		case "":
		case "cpu":
			list = append(list, resource.Quantity{Name: resource.NameCPU, Amount: a.amount(key, value, 1000)})
		case "mem":
			list = append(list, resource.Quantity{Name: resource.NameMemory, Amount: a.amount(key, value, 1<<30)})
		case "gpu":
			list = append(list, resource.Quantity{Name: spec.ResourceGPUMilli, Amount: a.amount(key, value, topology.FullGPU)})
		case resource.NamePods:
			list = append(list, resource.Quantity{Name: resource.NamePods, Amount: a.amount(key, value, 1)})
		default:
			a.fail("%s: want cpu:N, mem:N, gpu:N or pods:N, found %q", key, part)
		}
	}
	return list, true
}
