package topology

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// node reads a small machine with devices: some that nest, some that no firmware should report.
func (s *deviceChoices) node() *tally {
	t := &tally{numaNodes: NUMAShape{
		Ruler:     []Ruler{RulerAgent, RulerAgent, RulerAgent, RulerAgent, RulerKubelet, RulerNone}[s.below(6)],
		NUMANodes: uint8(s.below(4)), Threads: uint8(1 + s.below(2)), Closed: []uint8{0, 0, 0, 1, 2}[s.below(5)],
	}}
	t.numaNodes.BindsShared = s.below(4) < 3
	t.numaNodes.SeparatesBandwidth = s.below(4) < 3
	for z := range t.numaNodes.NUMANodes {
		t.numaNodes.NUMANode[z] = NUMACapacity{CPUs: uint16(s.below(4)) * uint16(t.numaNodes.Threads), Socket: z / 2, Memory: uint32(s.below(5))}
	}
	d := &Devices{Owner: []Owner{OwnerHilbert, OwnerHilbert, OwnerHilbert, OwnerHilbert, OwnerHilbert, OwnerKubelet, OwnerNone}[s.below(7)]}
	odd := s.below(4) == 3
	place := func() (pciSwitch, numa, socket uint8) {
		pciSwitch = uint8(s.below(2))
		numa = pciSwitch
		if odd {
			numa = []uint8{0, 1, 2, NoPlace}[s.below(4)]
			pciSwitch = []uint8{0, 1, NoPlace}[s.below(3)]
		}
		if numa == NoPlace {
			return pciSwitch, numa, []uint8{0, NoPlace}[s.below(2)]
		}
		return pciSwitch, numa, numa / 2
	}
	memory := uint32(s.below(4) * 4)
	for range s.below(5) {
		g := GPU{Memory: memory, Grain: []uint16{0, 100, 250}[s.below(3)], Least: []uint16{0, 150, 400}[s.below(3)], Clients: uint8(s.below(4)), Strengths: Strengths(s.below(8) << 1)}
		if odd {
			g.Memory = uint32(s.below(4) * 4)
		}
		if s.below(4) == 3 {
			g.Instances = []Instance{{"c", 140, 2}, {"b", 430, 4}, {"a", 140, 1}}[:1+s.below(3)]
		}
		g.Switch, g.NUMANode, g.Socket = place()
		d.GPU = append(d.GPU, g)
	}
	for range s.below(4) {
		n := NIC{Bandwidth: uint32(s.below(4) * 10), Functions: uint16(s.below(3)), RDMA: s.below(2) == 1}
		n.Switch, n.NUMANode, n.Socket = place()
		d.NIC = append(d.NIC, n)
	}
	if s.below(2) == 1 {
		for range len(d.GPU) * len(d.GPU) {
			d.Links = append(d.Links, uint8(s.below(3)))
		}
	}
	d.ClosedGPUs, d.ClosedNICs = []uint16{0, 0, 1, 2}[s.below(4)], []uint16{0, 0, 1, 2}[s.below(4)]
	d.SeveralNamespaces = s.below(4) == 3
	t.shape.Devices = d
	s.resources(t)
	return t
}

func (s *deviceChoices) deviceRequest() (r Request, z NUMARequest) {
	if s.below(3) == 0 {
		r.Whole = int8(s.below(4))
	} else {
		r.Milli = []int16{100, 140, 250, 333, 500, 999}[s.below(6)]
		r.Isolation, r.Tenant = Isolation(s.below(4)), TenantOf([]string{"a", "b", ""}[s.below(3)])
	}
	if !r.IsZero() && s.below(2) == 1 {
		r.Memory = uint32(1 + s.below(5))
	}
	if r.NIC.Count = uint8(s.below(4)); r.NIC.Count > 0 {
		r.NIC.RDMA, r.NIC.Function, r.NIC.Bandwidth = s.below(3) == 2, s.below(3) == 2, uint32(s.below(3)*10)
	}
	if s.below(2) == 1 {
		z = NUMARequest{CPUs: uint16(1 + s.below(5)), Binding: Binding(s.below(4)), Memory: uint32(s.below(4)), Bandwidth: []Bandwidth{0, 0, BandwidthIntensive, BandwidthSensitive}[s.below(4)]}
	}
	if r.Near.Level = Level(s.below(4)); r.Near.Level != Anywhere {
		r.Near.Required = s.below(2) == 1
		r.Near.Relax = r.Near.Required && s.below(3) == 2
	}
	r.Resources = s.resourceRequest()
	return r, z
}

// counters are the amounts of a view, to be compared.
type counters struct {
	free      Free
	devices   DeviceFree
	numaNodes NUMAFree
	resources ResourceFree
}

func newCounters(t *tally) counters {
	return counters{NewFree(t.shape), NewDeviceFree(t.shape.Devices), NewNUMAFree(&t.numaNodes), NewResourceFree(t.resources)}
}

func (c *counters) view(t *tally) *View {
	return &View{Shape: &t.shape, Free: &c.free, Devices: &c.devices, NUMANodes: &t.numaNodes, NUMAFree: &c.numaNodes, Resources: t.resources, ResourcesFree: &c.resources}
}

// playDevices plays a stream of offers, commits and releases to the allocator and to the oracle, and returns the first thing that is wrong.
func playDevices(data []byte) error {
	s := &deviceChoices{data}
	t := s.node()
	c := newCounters(t)
	v := c.view(t)
	for range 6 {
		if len(s.bytes) == 0 {
			break
		}
		if len(t.held) > 0 && s.below(4) == 0 {
			i := s.below(len(t.held))
			v.Release(&t.held[i])
			t.held = slices.Delete(t.held, i, i+1)
			continue
		}
		r, z := s.deviceRequest()
		if r.Contradiction(&z) != "" {
			if g, ok := v.Offer(&r, &z); ok || g != (Grant{}) {
				return fmt.Errorf("%+v is contradictory, and offered %+v", r, g)
			}
			continue
		}
		g, err := judge(t, v, r, z, s)
		if err == nil && g.IsZero() && s.below(4) == 3 {
			g = v.Force(&r, &z)
		}
		if err != nil {
			return fmt.Errorf("%+v and %+v of %+v with %+v: %w", r, z, *t.shape.Devices, t.held, err)
		}
		before := c
		v.Commit(&g)
		committed := c
		if v.Release(&g); c != before {
			return fmt.Errorf("commit and release of %+v: %+v is %+v", g, before, c)
		}
		c = committed
		t.held = append(t.held, g)
	}
	for i := range t.held {
		v.Release(&t.held[i])
	}
	if c != newCounters(t) {
		return fmt.Errorf("after releasing everything: %+v", c)
	}
	return nil
}

// judge compares what is offered with everything that could be. It returns what is to be committed.
func judge(t *tally, v *View, r Request, z NUMARequest, s *deviceChoices) (Grant, error) {
	limit := t.limit(r, z)
	every := t.all(r, z, limit, false)
	g, ok := v.Offer(&r, &z)
	if ok != (len(every) > 0) {
		return g, fmt.Errorf("offered %v %+v, the oracle knows %d ways", ok, g, len(every))
	}
	if why := v.Refusal(&r, &z); (why.Cause == Fits) != ok || (why.String() == "") != ok {
		return g, fmt.Errorf("offered: %v, refused: %+v %q", ok, why, why)
	}
	if err := misjudged(v, t.all(r, z, Anywhere, false), t.numaFree(), limit, asked{r, z, s, t, t.asks(r)}); err != nil {
		return g, err
	}
	if !ok {
		if g != (Grant{}) {
			return g, fmt.Errorf("no, and yet %+v", g)
		}
		return g, nil
	}
	if !v.Fits(&r, &z, &g) || !g.Answers(&r) {
		return g, fmt.Errorf("offered %+v, which does not fit", g)
	}
	if len(t.asks(r)) > 0 {
		if err := t.closest(every, r, z, &g); err != nil {
			return g, err
		}
	} else if err := best(t, r, z, limit, g); err != nil {
		return g, err
	}
	if s.below(3) == 2 { // any other way, so that all states come up
		other := every[s.below(len(every))]
		g = other.Grant
		if near := !z.IsZero() && other.numaNodes != 0; near {
			f := t.numaFree()
			g.NUMANodes = f.share(&t.numaNodes, z, other.numaNodes)
		}
		g.Resources = (&asked{r, z, s, t, t.asks(r)}).give(other.resourceNodes)
	}
	return g, nil
}

// best says what is better than what was offered.
func best(t *tally, r Request, z NUMARequest, limit Level, g Grant) error {
	offered := judged{Grant: g, numaNodes: g.NUMANodes.NUMANodes()}
	near := !z.IsZero() && r.Near.Level != Anywhere
	considered := offered.numaNodes
	if !near {
		considered = 0
	}
	offered.level = t.closeness(&offered, considered, near)
	rank := t.rank(r, z, &offered)
	for _, j := range t.all(r, z, limit, true) {
		// Which whole GPUs of a domain, and which cards, is judged below.
		if better := t.rank(r, z, &j); slices.Compare(better[:len(better)-1], rank[:len(rank)-1]) < 0 || r.Milli > 0 && slices.Compare(better, rank) < 0 {
			return fmt.Errorf("offered %+v (%v), better is %+v, NUMA %b (%v)", g, rank, j.Grant, j.numaNodes, better)
		}
	}
	wide, _ := t.domainOf(offered.level, g.GPUs, g.NICs, considered)
	narrow := wide
	if r.GPUsAndCards() > 0 {
		narrow, _ = t.domainOf(Level(-rank[1]), g.GPUs, g.NICs, 0)
	}
	var candidates uint16
	for _, c := range t.gpuChoices(Request{Whole: min(r.Whole, 1), Memory: r.Memory}, true) {
		candidates |= c.GPUs & narrow.gpus & wide.gpus
	}
	if r.Whole > 0 {
		if err := t.wellConnected(candidates, g.GPUs); err != nil {
			return err
		}
	}
	if want := t.cards(r, g, narrow.nics&wide.nics); want != g.NICs {
		return fmt.Errorf("offered %+v, cards should be %b", g, want)
	}
	for _, set := range t.numaChoices(z) {
		if !near || set&^wide.numaNodes == 0 {
			if set != offered.numaNodes {
				return fmt.Errorf("offered %+v, NUMA nodes should be %b", g, set)
			}
			break
		}
	}
	return nil
}

// cards are the network cards that go with GPUs, one by one.
func (t *tally) cards(r Request, g Grant, among uint16) (set uint16) {
	type card struct{ apart, taken, bandwidth, functions, index int }
	for range r.NIC.Count {
		var list []card
		one := r.NIC
		one.Count = 1
		for _, choice := range t.nicChoices(one) {
			i := bits.TrailingZeros16(choice)
			if among&choice == 0 || set&choice != 0 {
				continue
			}
			at := t.places(false, i)[SameSwitch]
			c := card{apart: 1, index: i}
			c.bandwidth, c.functions = t.nic(i)
			for gpu := range t.devices().GPU {
				if at != NoPlace && g.GPUs&(1<<gpu) != 0 && t.places(true, gpu)[SameSwitch] == at {
					c.apart = 0
				}
			}
			for other := range t.devices().NIC {
				if c.apart == 0 && set&(1<<other) != 0 && t.places(false, other)[SameSwitch] == at {
					c.taken++
				}
			}
			list = append(list, c)
		}
		chosen := slices.MinFunc(list, func(a, b card) int {
			return slices.Compare([]int{a.apart, a.taken, a.bandwidth, a.functions, a.index}, []int{b.apart, b.taken, b.bandwidth, b.functions, b.index})
		})
		set |= 1 << chosen.index
	}
	return set
}

// asked is a request, and the stream that it comes from.
type asked struct {
	r Request
	z NUMARequest
	*deviceChoices
	*tally
	asks []Resource
}

// misjudged looks for a grant that Fits judges otherwise than the oracle: all ways that there are without a limit, and some changed a little.
func misjudged(v *View, list []judged, f NUMAFree, limit Level, a asked) error {
	for range min(len(list), 6) {
		j := list[a.below(len(list))]
		g := j.Grant
		if j.numaNodes != 0 {
			if g.NUMANodes = f.share(v.NUMANodes, a.z, j.numaNodes); g.NUMANodes.NUMANodes() != j.numaNodes {
				continue // it does not need all of them
			}
		}
		if j.resourceNodes != 0 || len(a.asks) > 0 {
			if g.Resources = a.give(j.resourceNodes); g.Resources.NUMANodes() != j.resourceNodes {
				continue
			}
		}
		if v.Fits(&a.r, &a.z, &g) != (j.level >= limit) {
			return fmt.Errorf("%+v fits: %v; it is %v, the limit is %v", g, j.level < limit, j.level, limit)
		}
		for _, change := range []func(*Grant){
			func(g *Grant) { g.Resources = g.Resources.append("z.dev/other", &Amounts{Far: 1}) },
			func(g *Grant) { g.Resources = "a.dev/x=far:77" },
			func(g *Grant) { g.Milli++ }, func(g *Grant) { g.Memory++ }, func(g *Grant) { g.GPUs |= 1 << 9 }, func(g *Grant) { g.NICs |= 1 << 9 },
			func(g *Grant) { g.NIC.Bandwidth++ }, func(g *Grant) { g.NUMANodes.CPUs[7]++ }, func(g *Grant) { g.Instance += 4 },
		} {
			changed := g
			if change(&changed); v.Fits(&a.r, &a.z, &changed) {
				return fmt.Errorf("%+v fits as well as %+v", changed, g)
			}
		}
	}
	return nil
}

// FuzzDevices plays streams to the allocator of devices and to an oracle that tries everything: something is offered exactly when there is a way,
// it is as close as can be and the first by the documented order, it fits, what is no way does not fit, and Release undoes Commit.
func FuzzDevices(f *testing.F) {
	f.Add([]byte{0, 2, 1, 0, 3, 4, 3, 4, 0, 0, 2, 3, 0, 2, 7, 0, 0, 0, 1, 3, 7, 0, 1, 2, 3, 1, 2, 3, 1, 0, 0, 1, 2, 1, 0, 3, 1, 0, 2, 1, 1, 1, 1, 1, 2})
	f.Add([]byte("four GPUs, three cards, two switches, and a long enough seed to ask for some of it several times over"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := playDevices(data[:min(len(data), 400)]); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDevicesAgainstOracle plays random streams.
func TestDevicesAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := playDevices(rapid.SliceOfN(rapid.Byte(), 60, 300).Draw(t, "stream")); err != nil {
			t.Fatal(err)
		}
	})
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if err := playDevices(data); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// deviceChoices reads deviceChoices from fuzzed bytes; when they are used up, every choice is the first.
type deviceChoices struct{ bytes []byte }

// below returns a number from 0 to n-1.
func (s *deviceChoices) below(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}
