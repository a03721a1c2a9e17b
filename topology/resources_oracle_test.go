package topology

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// What the oracle knows of resources that plugins bring: what is left is counted anew from the list of what is held, and every set of NUMA nodes that has enough is
// a way to serve them.

// resourcesLeft is what is left of each resource.
func (t *tally) resourcesLeft() map[string]Amounts {
	left := make(map[string]Amounts)
	for _, r := range t.resources {
		a := r.Amounts
		for i := range t.held {
			held := t.held[i].Resources.Of(r.Name)
			a.Far -= held.Far
			for z := range held.NUMA {
				a.NUMA[z] -= held.NUMA[z]
			}
		}
		left[r.Name] = a
	}
	return left
}

// asks are what of a request is counted here. The amount is Far.
func (t *tally) asks(r Request) (list []Resource) {
	for _, known := range t.resources {
		for name, amount := range r.Resources.All() {
			if name == known.Name {
				list = append(list, Resource{name, Amounts{Far: amount}})
			}
		}
	}
	return list
}

// near reports whether the CPUs' NUMA nodes have to do with the rest.
func (t *tally) near(r Request, z NUMARequest) bool {
	return !z.IsZero() && (r.Near.Level != Anywhere || len(t.asks(r)) > 0)
}

// resourceChoices are the sets of NUMA nodes that serve what is asked for.
func (t *tally) resourceChoices(asks []Resource) (list []uint8) {
	left := t.resourcesLeft()
	for set := range uint8(1 << t.numaNodes.NUMANodes) {
		serves := true
		for _, ask := range asks {
			a := left[ask.Name]
			sum := max(a.Far, 0)
			for z := range t.numaNodes.NUMANodes {
				if set&(1<<z) != 0 {
					sum += max(a.NUMA[z], 0)
				}
			}
			serves = serves && sum >= ask.Amounts.Far
		}
		if serves && (set == 0 || len(asks) > 0) {
			list = append(list, set)
		}
	}
	return list
}

// give is what is asked for, of a set of NUMA nodes from the lowest on and then of what is near none.
func (a *asked) give(set uint8) (g ResourceGrant) {
	left := a.resourcesLeft()
	for _, ask := range a.asks {
		given, free, want := Amounts{}, left[ask.Name], ask.Amounts.Far
		for nodes := set; nodes != 0; nodes &= nodes - 1 {
			z := bits.TrailingZeros8(nodes)
			given.NUMA[z] = min(max(free.NUMA[z], 0), want)
			want -= given.NUMA[z]
		}
		given.Far = want
		g = g.append(ask.Name, &given)
	}
	return g
}

// resources reads what plugins bring to a machine, if it has NUMA nodes.
func (s *deviceChoices) resources(t *tally) {
	if t.numaNodes.NUMANodes == 0 {
		return
	}
	for _, name := range []string{"a.dev/x", "b.dev/y"}[:s.below(3)] {
		r := Resource{Name: name}
		for z := range t.numaNodes.NUMANodes {
			r.Amounts.NUMA[z] = int64(s.below(4))
		}
		r.Amounts.Far = []int64{0, 0, 1}[s.below(3)]
		t.resources = append(t.resources, r)
	}
}

// resourceRequest reads what a pod asks for of them, and of one that no machine here has.
func (s *deviceChoices) resourceRequest() ResourceRequest {
	if s.below(2) > 0 {
		return ""
	}
	amounts := [3]int64{int64(s.below(4)), int64(s.below(3)), int64(s.below(8) / 7)}
	return MakeResourceRequest(func(yield func(string, int64) bool) {
		for i, name := range []string{"a.dev/x", "b.dev/y", "c.dev/z"} {
			if !yield(name, amounts[i]) {
				return
			}
		}
	})
}

// closest says what is wrong with an offer that has something of plugins: another way is closer, or it takes what is elsewhere though the NUMA nodes of its CPUs
// have it.
func (t *tally) closest(every []judged, r Request, z NUMARequest, g *Grant) error {
	offered := judged{Grant: *g, numaNodes: g.NUMANodes.NUMANodes(), resourceNodes: g.Resources.NUMANodes()}
	considered := offered.numaNodes
	if !t.near(r, z) {
		considered = 0
	}
	level := t.closeness(&offered, considered, t.near(r, z))
	for i := range every {
		if every[i].level > level {
			return fmt.Errorf("offered %+v at level %d, %+v with resources of NUMA nodes %b is at %d", *g, level, every[i].Grant, every[i].resourceNodes, every[i].level)
		}
	}
	beside := g.NUMANodes.NUMANodes()
	for _, set := range t.resourceChoices(t.asks(r)) {
		if set&^beside == 0 && offered.resourceNodes&^beside != 0 && g.GPUs|g.NICs == 0 {
			return fmt.Errorf("offered %+v, though NUMA nodes %b of its CPUs have what plugins bring", *g, set)
		}
	}
	return nil
}

// TestResourcesAgainstOracle plays pods without devices, which ask for CPUs of NUMA nodes and for what plugins bring, one after the other until the machine is full.
// Something is offered exactly when there is a way; it is as close as can be; it fits, and what is no way does not.
func TestResourcesAgainstOracle(t *testing.T) {
	t.Parallel()
	offered, refused, apart := 0, 0, 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 53))
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		s := &deviceChoices{data}
		m := s.node()
		m.shape.Devices = &Devices{Owner: OwnerHilbert}
		c := newCounters(m)
		v := c.view(m)
		for range 5 {
			r, z := s.deviceRequest()
			r = Request{Near: r.Near, Resources: r.Resources}
			if len(m.asks(r)) == 0 || r.Contradiction(&z) != "" {
				continue
			}
			g, err := judge(m, v, r, z, s)
			if err != nil {
				t.Fatalf("seed %d: %+v and %+v of %+v with %+v and %+v: %v", seed, r, z, m.resources, m.numaNodes, m.held, err)
			}
			switch {
			case g.IsZero():
				refused++
			case g.Resources.NUMANodes()&^g.NUMANodes.NUMANodes() != 0 && !z.IsZero():
				apart++
			default:
				offered++
			}
			v.Commit(&g)
			m.held = append(m.held, g)
		}
		for i := range m.held {
			v.Release(&m.held[i])
		}
		if c != newCounters(m) {
			t.Fatalf("seed %d: after releasing everything: %+v", seed, c)
		}
	}
	if min(offered, refused, apart) < 100 {
		t.Errorf("%d offers, %d refusals and %d offers from elsewhere than the CPUs; want 100 of each, or this shows little", offered, refused, apart)
	}
}
