package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
)

// maxRest bounds the virtual time that a scenario may take to come to rest after its last step, in nanoseconds.
const maxRest = int64(7 * 24 * time.Hour)

// play is one run of a scenario.
type play struct {
	sim          *simulation
	ctx          context.Context
	sets         map[string]*podSet
	requirements map[string]*facts.Requirements // by what the template says
	printer      scenario.Printer
}

// podSet is the pods of a gang or a set: their tasks, by number.
type podSet struct {
	kind, namespace, name string
	subgroups             int
	template              scenario.Template
	packing               []string // labels by which it is packed
	tasks                 []int32
}

// Play runs a scenario on the virtual clock, and returns what each of its blocks prints. Then it lets the cluster come to rest. Options are
// those of Run; invariants are held after every step if CheckEvery says so. The error is a *Violation when one broke.
//
// Pods that are evicted, or whose node is killed, are created anew, as their controllers would do it; those that have ended stay.
func Play(ctx context.Context, f *scenario.File, o Options) ([]string, error) {
	p, err := newPlay(ctx, f, o)
	if err != nil {
		return nil, fmt.Errorf("play %s: %w", f.Name, err)
	}
	return p.all(f)
}

func newPlay(ctx context.Context, f *scenario.File, o Options) (*play, error) {
	s, err := newSimulation(&trace.Workload{Name: f.Name, Identities: make(map[string]trace.Identity)}, o)
	if err != nil {
		return nil, err
	}
	s.features.tenants, s.pods.lasting = true, true
	return &play{sim: s, ctx: ctx, sets: make(map[string]*podSet), requirements: make(map[string]*facts.Requirements)}, nil
}

// all takes every step, and then rests.
func (p *play) all(f *scenario.File) ([]string, error) {
	printed := make([]string, len(f.Blocks))
	for i := range f.Blocks {
		var b strings.Builder
		for _, step := range f.Blocks[i].Steps {
			if err := cmp.Or(p.do(step, &b), p.sim.violations.first); err != nil {
				return printed, fmt.Errorf("%s:%d: %w", f.Name, f.Blocks[i].Line, err)
			}
		}
		printed[i] = b.String()
	}
	if err := p.rest(); err != nil {
		return printed, fmt.Errorf("%s, at rest: %w", f.Name, err)
	}
	return printed, nil
}

// rest lets everything happen that still will, and holds what must be true then.
func (p *play) rest() error {
	until := p.sim.clock.now + maxRest
	p.advance(until)
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.sim.violations.first == nil && !p.sim.clock.empty() {
		p.sim.violations.add("there is no rest")
	}
	if p.sim.violations.first == nil {
		p.sim.audit.atRest()
	}
	return p.sim.violations.first
}

// advance lets virtual time pass.
func (p *play) advance(until int64) {
	p.sim.turn()
	for p.sim.violations.first == nil && p.sim.clock.before(until) {
		if p.sim.clock.step%cancelEvery == 0 && p.ctx.Err() != nil {
			return
		}
		p.sim.advance()
	}
	p.sim.clock.now = until
}

// do takes one step of the scenario.
func (p *play) do(step scenario.Step, out *strings.Builder) error {
	switch step := step.(type) {
	case scenario.Run:
		p.advance(p.sim.clock.now + int64(step.For))
		if err := p.ctx.Err(); err != nil {
			return err
		}
		out.WriteString(p.printer.Changes(p.state()))
	case scenario.Show:
		out.WriteString(p.printer.All(p.state()))
	case scenario.Restart:
		p.restart()
	case scenario.AddNodes:
		return p.addNodes(step.Nodes)
	case scenario.SetNode:
		return p.setNode(step)
	case scenario.SetQueue:
		p.sim.admin.setQueue(step.Queue)
	case scenario.SetNamespace:
		p.sim.admin.setNamespace(step.Namespace)
	case scenario.AddGang:
		return p.addGang(&step)
	case scenario.AddPods:
		return p.addPods(&step)
	case scenario.AddReservation:
		return p.reserve(&step)
	case scenario.Scale:
		return p.scale(step.Namespace, step.Name, step.Size)
	case scenario.Finish:
		return p.finishSome(step)
	case scenario.Delete:
		return p.delete(step)
	}
	return nil
}

func (p *play) restart() {
	if p.sim.process.scheduler == nil {
		return
	}
	p.sim.process.crash()
	pause := int64(1)
	if p.sim.o.Faults != nil { // as after a crash: by then every write of the dead process has landed or is lost
		pause += int64(p.sim.o.Config.Binding.WriteTimeout.D())
	}
	p.sim.clock.add(event{at: p.sim.clock.now + pause, kind: evRestart})
}

func (p *play) addNodes(nodes []*facts.Node) error {
	for _, n := range nodes {
		if _, ok := p.sim.api.byName[n.Name]; ok {
			return fmt.Errorf("there is a node %s already", n.Name)
		}
		p.sim.admin.addNode(n)
	}
	return nil
}

func (p *play) setNode(step scenario.SetNode) error {
	name := step.Name
	if name == "" && step.Do == scenario.Revive {
		for i := range p.sim.api.nodes {
			if !p.sim.api.nodes[i].present {
				p.sim.admin.returnNode(int32(i))
			}
		}
		return nil
	}
	if name == "" {
		c := p.sets[step.Of.String()]
		if c == nil {
			return fmt.Errorf("there is no gang %s", step.Of)
		}
		for _, task := range c.tasks {
			if i := p.current(task); i != nowhere && name == "" && p.sim.api.pods[i].node != nowhere && !p.sim.api.pods[i].finished {
				name = p.sim.api.nodes[p.sim.api.pods[i].node].object.Name
			}
		}
		if name == "" {
			return fmt.Errorf("nothing of gang %s runs", step.Of)
		}
	}
	i, ok := p.sim.api.byName[name]
	if !ok {
		return fmt.Errorf("there is no node %s", name)
	}
	n := &p.sim.api.nodes[i]
	switch step.Do {
	case scenario.Kill:
		p.kill(n)
	case scenario.Revive:
		p.sim.admin.returnNode(i)
	default:
		edited := *n.object
		edited.Unschedulable = step.Do == scenario.Cordon
		p.sim.admin.updateNode(n, &edited)
	}
	return nil
}

// kill takes a node away. Its pods are removed, and created anew.
func (p *play) kill(n *node) {
	p.sim.admin.removeNode(n)
	for i := range p.sim.api.pods {
		if q := &p.sim.api.pods[i]; q.exists && !q.finished && q.node != nowhere && &p.sim.api.nodes[q.node] == n {
			q.evicted = q.ours && !q.removed
			p.sim.pods.leave(int32(i))
		}
	}
}

func (p *play) addGang(g *scenario.AddGang) error {
	name := g.Unit.UnitName
	if p.sets[name.String()] != nil {
		return fmt.Errorf("there is a gang or a set %s already", name)
	}
	c := &podSet{kind: "gang", namespace: name.Namespace, name: name.Name, subgroups: g.Subgroups, template: g.Pod}
	for _, label := range []string{
		g.Unit.Topology.Required, g.Unit.Topology.Preferred, g.Unit.Topology.Spread, g.Unit.Topology.Uniform, g.Unit.SubgroupTopology.Required,
		g.Unit.SubgroupTopology.Preferred,
	} {
		if label != "" && !slices.Contains(c.packing, label) {
			c.packing = append(c.packing, label)
		}
	}
	p.sets[name.String()] = c
	seen := g.Unit
	at := slices.IndexFunc(p.sim.w.Units, func(u trace.Unit) bool { return u.Facts.UnitName == name })
	if at < 0 {
		at = len(p.sim.w.Units)
		p.sim.w.Units = append(p.sim.w.Units, trace.Unit{Deleted: trace.Never})
		p.sim.api.units = append(p.sim.api.units, unit{})
	}
	p.sim.w.Units[at].Facts = &seen
	p.sim.admin.createUnit(int32(at))
	p.grow(c, g.Size)
	return nil
}

func (p *play) addPods(s *scenario.AddPods) error {
	key := s.Namespace + "/" + s.Name
	if p.sets[key] != nil {
		return fmt.Errorf("there is a gang or a set %s already", key)
	}
	c := &podSet{kind: "pods", namespace: s.Namespace, name: s.Name, template: s.Pod}
	p.sets[key] = c
	if !s.Foreign {
		p.grow(c, s.Count)
		return nil
	}
	at, ok := p.sim.api.byName[s.On]
	if !ok || !p.sim.api.nodes[at].present {
		return fmt.Errorf("there is no node %s", s.On)
	}
	for range s.Count {
		i := p.sim.api.create(p.task(c), 0, false, p.sim.clock.now)
		q, n := &p.sim.api.pods[i], &p.sim.api.nodes[at]
		grant, fits := judge.SomeGrant(n.object, p.sim.api.occupants(n), p.sim.api.requirements(q).GPU)
		if !fits || judge.Refusal(n.object, p.sim.api.occupants(n), p.sim.api.requirements(q), grant) != "" {
			return fmt.Errorf("another scheduler's pod %s does not fit on node %s", q.name, s.On)
		}
		p.sim.api.bind(i, at, grant, p.sim.clock.now)
		q.foreign = true
		p.sim.pods.planEnd(i)
		p.sim.watches.tellPod(i)
	}
	return nil
}

// grow makes pods until there are as many.
func (p *play) grow(c *podSet, size int) {
	for len(c.tasks) < size {
		task := p.task(c)
		if c.subgroups > 0 { // equal parts, when all are there
			p.sim.w.Tasks[task].Subgroup = fmt.Sprintf("part-%d", (len(c.tasks)-1)*c.subgroups/size)
		}
		p.sim.pods.create(task, p.age(p.sim.w.Tasks[task].Name), true)
	}
}

// age counts the pods that ever had a name.
func (p *play) age(name string) int32 {
	n := int32(0)
	for i := range p.sim.api.pods {
		if p.sim.api.pods[i].name == name {
			n++
		}
	}
	return n
}

// task makes the task of a set's next pod.
func (p *play) task(c *podSet) int32 {
	r := p.requirements[fmt.Sprint(c.template)]
	if r == nil {
		r = c.template.Requirements()
		p.requirements[fmt.Sprint(c.template)] = r
	}
	t := trace.Task{
		Name: fmt.Sprintf("%s/%s-%d", c.namespace, c.name, len(c.tasks)), Requirements: r, Created: p.sim.clock.now, Deleted: trace.Never,
		Priority: c.template.Priority, Runs: int64(c.template.Duration), Deadline: int64(c.template.Deadline), Group: c.namespace + "/" + c.name,
	}
	if c.kind == "gang" {
		t.Unit = c.name
	}
	p.sim.w.Identities[t.Group] = trace.Identity{Namespace: c.namespace, Labels: []facts.Label{{Key: scenario.LabelSet, Value: c.name}}}
	number := int32(len(p.sim.w.Tasks))
	p.sim.w.Tasks = append(p.sim.w.Tasks, t)
	p.sim.pods.next = len(p.sim.w.Tasks)
	c.tasks = append(c.tasks, number)
	return number
}

// current is the pod of a task that exists, or nowhere.
func (p *play) current(task int32) int32 {
	for i := len(p.sim.api.pods) - 1; i >= 0; i-- {
		if q := &p.sim.api.pods[i]; q.exists && q.task == task {
			return int32(i)
		}
	}
	return nowhere
}

var errNoSet = errors.New("there is no such gang or set of pods")

func (p *play) scale(ns, name string, size int) error {
	c := p.sets[ns+"/"+name]
	if c == nil {
		return errNoSet
	}
	for len(c.tasks) > size {
		last := c.tasks[len(c.tasks)-1]
		c.tasks = c.tasks[:len(c.tasks)-1]
		p.remove(p.current(last), false)
	}
	p.grow(c, size)
	return nil
}

// remove deletes a pod: it is given time to end if it runs. If it comes back it is created anew then.
func (p *play) remove(i int32, again bool) {
	if i == nowhere {
		return
	}
	q := &p.sim.api.pods[i]
	q.evicted, q.removed = again, !again
	switch {
	case q.deleting:
	case q.node == nowhere || q.finished:
		p.sim.pods.leave(i)
	default:
		p.sim.pods.terminate(i)
		p.sim.clock.add(event{at: p.sim.clock.now + gracePeriod, kind: evLeave, arg: i})
	}
}

func (p *play) delete(step scenario.Delete) error {
	key := step.Namespace + "/" + step.Name
	c := p.sets[key]
	switch step.Kind {
	case scenario.OfQueue:
		p.sim.admin.removeQueue(step.Name)
		return nil
	case scenario.OfReservation:
		if p.sim.api.kept.Get(facts.UID(key)) == nil {
			return fmt.Errorf("there is no reservation %s", key)
		}
		p.sim.admin.deleteReservation(facts.UID(key))
		return nil
	case scenario.OfPod:
		for _, c := range p.sets {
			for _, task := range c.tasks {
				if p.sim.w.Tasks[task].Name == key {
					p.remove(p.current(task), true)
					return nil
				}
			}
		}
		return fmt.Errorf("there is no pod %s", key)
	case scenario.OfPodGroup, scenario.OfGang:
		at := slices.IndexFunc(p.sim.w.Units, func(u trace.Unit) bool { return u.Facts.String() == key })
		if at < 0 {
			return errNoSet
		}
		p.sim.admin.deleteUnit(int32(at))
		if step.Kind == scenario.OfPodGroup {
			return nil
		}
	case scenario.OfPods:
	}
	if c == nil {
		return errNoSet
	}
	for _, task := range c.tasks {
		p.remove(p.current(task), false)
	}
	delete(p.sets, key)
	return nil
}

func (p *play) finishSome(step scenario.Finish) error {
	c := p.sets[step.Namespace+"/"+step.Name]
	if c == nil {
		return errNoSet
	}
	left := step.Count
	if left == 0 {
		left = math.MaxInt
	}
	for _, task := range c.tasks {
		if i := p.current(task); left > 0 && i != nowhere && p.sim.api.pods[i].node != nowhere && !p.sim.api.pods[i].finished {
			p.sim.pods.finish(i)
			left--
		}
	}
	return nil
}
