package config

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// cluster is a model of an API server with NodeConfigurations and nodes, of their agents, and of a controller that may see an old state and lose writes. All chance comes
// from one seed.
type cluster struct {
	random  *rand.Rand
	now     time.Time
	objects map[string]*Object
	nodes   map[string]*model
	// seen is what the controller's cache has; lag says how likely it stays as it is.
	seen View
	lag  float64
	// lost is how likely a write is lost, perTick how many nodes the controller tells at each tick.
	lost    float64
	perTick int
	// conditions are those that were last written, by object.
	conditions map[string][]spec.NodeCondition
	told       map[string]int // writes, by node
}

// model is a node and its agent. With a bad parameter (a target of 99 %) its pods wait; with one of 13 % its agent refuses; with one of 97 % it dies.
type model struct {
	Node
	dead, silent bool
	delay        int64
	reading      *spec.WantedConfiguration // what it will apply at the next tick
}

const (
	poison  = `{"lending":{"targetUtilization":99}}`
	refused = `{"lending":{"targetUtilization":13}}`
	deadly  = `{"lending":{"targetUtilization":97}}`
	good    = `{"lending":{"targetUtilization":70}}`
	better  = `{"lending":{"targetUtilization":60}}`
)

func newCluster(seed uint64, nodes int) *cluster {
	c := &cluster{
		random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), objects: make(map[string]*Object),
		nodes: make(map[string]*model), perTick: nodes, conditions: make(map[string][]spec.NodeCondition), told: make(map[string]int),
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		c.nodes[name] = &model{delay: 100 + c.random.Int64N(10), Node: Node{Name: name, Labels: map[string]string{"pool": []string{"web", "batch"}[i%2]}}}
	}
	return c
}

// apply creates or changes an object.
func (c *cluster) apply(name string, s spec.NodeConfiguration) {
	o := c.objects[name]
	if o == nil {
		o = &Object{Name: name, Created: c.now}
		c.objects[name] = o
	}
	o.Generation++
	o.Spec = s
}

func (c *cluster) view() View {
	var v View
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		v.Objects = append(v.Objects, *c.objects[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		v.Nodes = append(v.Nodes, c.nodes[name].Node)
	}
	c.random.Shuffle(len(v.Nodes), func(i, j int) { v.Nodes[i], v.Nodes[j] = v.Nodes[j], v.Nodes[i] })
	return v
}

// tick lets 30 s pass: agents apply and report, the controller decides and writes.
func (c *cluster) tick() {
	c.now = c.now.Add(30 * time.Second)
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		c.nodes[name].tick(c)
	}
	if c.seen.Nodes == nil || c.random.Float64() >= c.lag {
		c.seen = c.view()
	}
	actions, _ := Decide(&c.seen, c.now, Defaults())
	left := c.perTick
	for _, a := range actions {
		switch {
		case c.random.Float64() < c.lost:
		case a.Status != nil:
			c.writeStatus(a.Status)
		case left > 0:
			left--
			c.told[a.Tell.Node]++
			c.nodes[a.Tell.Node].Wanted = a.Tell.Wanted
		}
	}
}

// writeStatus writes a status at the version that the controller has seen, as the API server would.
func (c *cluster) writeStatus(s *StatusWrite) {
	now := c.objects[s.Object]
	i := slices.IndexFunc(c.seen.Objects, func(o Object) bool { return o.Name == s.Object })
	if now == nil || !sameProgress(&now.Status, &c.seen.Objects[i].Status) {
		return // a conflict
	}
	now.Status = s.Status
	c.conditions[s.Object] = s.Conditions
}

func (m *model) tick(c *cluster) {
	if m.dead || m.silent {
		return
	}
	if m.reading != nil || m.Wanted == nil {
		m.read(c)
	}
	m.reading = m.Wanted
	m.Report.ObservedAt, m.Report.Ready = c.now, true
	m.Report.Health = &spec.NodeHealth{RunDelay: m.delay + c.random.Int64N(5), WindowSeconds: 60}
	if a := m.Report.Applied; a != nil && a.InForce == spec.WrittenParameters(poison).Hash() {
		m.Report.Health.RunDelay *= 4
	}
}

// read applies what the node was told.
func (m *model) read(c *cluster) {
	w := m.Wanted
	switch a := m.Report.Applied; {
	case w == nil:
		m.Report.Applied = nil
	case a != nil && a.Name == w.Name && a.Hash == w.Hash:
	case string(w.Parameters) == deadly:
		m.dead = true
	case string(w.Parameters) == refused:
		m.Report.Applied = &spec.AppliedConfiguration{Name: w.Name, Hash: w.Hash, Error: "node.lending.targetUtilization: 13: this node cannot", Since: c.now}
	default:
		m.Report.Applied = &spec.AppliedConfiguration{Name: w.Name, Hash: w.Hash, InForce: w.Hash, Since: c.now}
	}
}

// having counts the nodes that were told of these parameters.
func (c *cluster) having(parameters string) (n int) {
	for _, m := range c.nodes {
		if m.Wanted != nil && string(m.Wanted.Parameters) == parameters {
			n++
		}
	}
	return n
}

func (c *cluster) run(ticks int, check func()) {
	for range ticks {
		c.tick()
		check()
	}
}

// condition is whether the object "all" is rolled out.
func (c *cluster) condition() spec.NodeCondition {
	for _, x := range c.conditions["all"] {
		if x.Type == ConditionRolledOut {
			return x
		}
	}
	return spec.NodeCondition{}
}
