package topology

import (
	"cmp"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawNUMANodes draws a machine of a few NUMA nodes, and what is left of it: anything, overdrawn NUMA nodes among it.
func drawNUMANodes(t *rapid.T) (s NUMAShape, f NUMAFree) {
	s = NUMAShape{
		Ruler:     rapid.SampledFrom([]Ruler{RulerAgent, RulerAgent, RulerAgent, RulerAgent, RulerKubelet, RulerNone}).Draw(t, "ruler"),
		NUMANodes: uint8(rapid.IntRange(0, 5).Draw(t, "numaNodes")), Threads: uint8(rapid.IntRange(0, 2).Draw(t, "threads")),
		Closed:      uint8(rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "closed")),
		BindsShared: rapid.IntRange(0, 4).Draw(t, "bindsShared") > 0, SeparatesBandwidth: rapid.IntRange(0, 4).Draw(t, "separatesBandwidth") > 0,
	}
	threads := int(max(s.Threads, 1))
	for z := range s.NUMANodes {
		s.NUMANode[z] = NUMACapacity{
			CPUs: uint16(rapid.IntRange(0, 4).Draw(t, "cpus") * threads), Socket: z / 2, Memory: uint32(rapid.IntRange(0, 6).Draw(t, "memory")),
		}
	}
	f = NewNUMAFree(&s)
	for z := range s.NUMANodes {
		if rapid.Bool().Draw(t, "used") {
			f[z].CPUs = int32(rapid.IntRange(-2, int(s.NUMANode[z].CPUs)).Draw(t, "free"))
			f[z].Memory = int64(rapid.IntRange(-2, int(s.NUMANode[z].Memory)).Draw(t, "freeMemory"))
			f[z].Claims = int32(rapid.IntRange(0, 2).Draw(t, "claims"))
			f[z].Intensive = int16(rapid.IntRange(0, 1).Draw(t, "intensive"))
			f[z].Sensitive = int16(rapid.IntRange(0, 1).Draw(t, "sensitive"))
		}
	}
	return s, f
}

func drawRequest(t *rapid.T) NUMARequest {
	return NUMARequest{
		CPUs: uint16(rapid.IntRange(0, 12).Draw(t, "request")), Binding: Binding(rapid.IntRange(0, 3).Draw(t, "binding")),
		Memory: uint32(rapid.IntRange(0, 12).Draw(t, "need")), Bandwidth: rapid.SampledFrom([]Bandwidth{0, 0, BandwidthIntensive, BandwidthSensitive}).Draw(t, "bandwidth"),
	}
}

// choice is a set of NUMA nodes that holds a request, and how good it is.
type choice struct{ set, numaNodes, sockets, cores, memory int }

// choices are all sets of NUMA nodes that hold a request, the best first: few NUMA nodes, few sockets, little left over.
func choices(s *NUMAShape, f *NUMAFree, r NUMARequest) (all []choice) {
	threads := int(max(s.Threads, 1))
	if r.Binding == BoundShared { // it needs room for its threads, and no core for itself
		threads = 1
		if !s.BindsShared {
			return nil
		}
	}
	if r.Bandwidth != BandwidthUnsaid && !s.SeparatesBandwidth {
		return nil
	}
	want := (int(r.CPUs) + threads - 1) / threads
	for set := 1; set < 1<<s.NUMANodes; set++ {
		c := choice{set: set, cores: -want}
		usable := true
		sockets := map[uint8]bool{}
		for z := range int(s.NUMANodes) {
			if set&(1<<z) == 0 {
				continue
			}
			cores := int(f[z].CPUs) / threads
			whole := f[z].Claims == 0 && f[z].CPUs == int32(s.NUMANode[z].CPUs)
			beside := map[Bandwidth]int16{BandwidthIntensive: f[z].Sensitive, BandwidthSensitive: f[z].Intensive}[r.Bandwidth]
			usable = usable && beside == 0 && cores > 0 && s.Closed&(1<<z) == 0 && (whole || r.Binding != Exclusive)
			c.numaNodes++
			c.cores += cores
			c.memory += max(int(f[z].Memory), 0)
			sockets[s.NUMANode[z].Socket] = true
		}
		c.sockets = len(sockets)
		if c.memory -= int(r.Memory); r.Binding == Unbound {
			c.memory = 0
		}
		if usable && c.cores >= 0 && c.memory >= 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(x, y choice) int {
		return cmp.Or(x.numaNodes-y.numaNodes, x.sockets-y.sockets, x.cores-y.cores, x.memory-y.memory, x.set-y.set)
	})
	return all
}

// TestOfferNUMAAgainstExhaustion: OfferNUMA finds a grant exactly when some set of NUMA nodes holds the request, it is of the best set, it fits,
// and what is not a whole grant of that set does not.
func TestOfferNUMAAgainstExhaustion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, f := drawNUMANodes(t)
		r := drawRequest(t)
		g, ok := OfferNUMA(&s, &f, r)
		if !ok {
			if !g.IsZero() {
				t.Fatalf("no, and yet %v", g)
			}
		} else if !f.Fits(&s, r, &g) {
			t.Fatalf("%v of %v does not fit %v", g, r, f)
		}
		if s.Ruler != RulerAgent || r.IsZero() {
			want := r.IsZero() || s.Ruler == RulerKubelet && r.Binding == Unbound
			if ok != want || !g.IsZero() {
				t.Fatalf("ruler %v, request %v: %v %v", s.Ruler, r, g, ok)
			}
			return
		}
		all := choices(&s, &f, r)
		if ok != (len(all) > 0) {
			t.Fatalf("%v of %v: offered %v, exhaustion finds %v", r, f, ok, all)
		}
		if !ok {
			return
		}
		set := uint8(all[0].set)
		if g.NUMANodes() != set {
			t.Fatalf("%v of %v: offered %v, the best is %+v", r, f, g, all[0])
		}
		misfits(t, s, f, r, g)
	})
}

// misfits changes a grant that fits into ones that must not.
func misfits(t *rapid.T, s NUMAShape, f NUMAFree, r NUMARequest, g NUMAGrant) {
	z := bits.TrailingZeros8(g.NUMANodes())
	less := g
	grain := uint16(max(s.Threads, 1))
	if r.Binding == BoundShared {
		grain = 1
	}
	less.CPUs[z] -= min(less.CPUs[z], grain)
	if less.CPUs[z] < g.CPUs[z] && f.Fits(&s, r, &less) {
		t.Fatalf("%v fits as well as %v", less, g)
	}
	odd := g
	if odd.CPUs[z]++; f.Fits(&s, r, &odd) {
		t.Fatalf("%v fits as well as %v", odd, g)
	}
	foreign := g
	if foreign.Memory[7]++; f.Fits(&s, r, &foreign) {
		t.Fatalf("%v fits as well as %v", foreign, g)
	}
	shut := s
	if shut.Closed |= 1 << z; f.Fits(&shut, r, &g) {
		t.Fatalf("%v fits with NUMA node %d closed", g, z)
	}
	if old := s; r.Binding == BoundShared {
		if old.BindsShared = false; f.Fits(&old, r, &g) {
			t.Fatalf("%v fits where the agent binds no pod that shares CPUs", g)
		}
	}
	other := f
	if r.Bandwidth == BandwidthSensitive {
		other[z].Intensive++
	} else {
		other[z].Sensitive++
	}
	if got := other.Fits(&s, r, &g); got != (r.Bandwidth == BandwidthUnsaid) {
		t.Fatalf("%v fits beside a pod of another bandwidth: %v", g, got)
	}
	if unsaid := g; r.Bandwidth != BandwidthUnsaid {
		if unsaid.Bandwidth = BandwidthUnsaid; f.Fits(&s, r, &unsaid) {
			t.Fatalf("%v fits for a pod with bandwidth %v", unsaid, r.Bandwidth)
		}
		old := s
		if old.SeparatesBandwidth = false; f.Fits(&old, r, &g) {
			t.Fatalf("%v fits where the agent separates no pods", g)
		}
	}
	taken := f
	taken.Commit(&g)
	again := taken
	if r.Binding == Exclusive && again.Fits(&s, r, &g) {
		t.Fatalf("%v fits twice", g)
	}
	if taken.Release(&g); taken != f {
		t.Fatalf("%v: released to %v", f, taken)
	}
}

// TestNUMADoNotShareWhatTheyHave commits what is offered until nothing fits: nothing is ever overdrawn, and releasing all of it is undoing it.
func TestNUMADoNotShareWhatTheyHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawNUMANodes(t)
		s.Ruler, s.BindsShared, s.SeparatesBandwidth = RulerAgent, true, true
		f := NewNUMAFree(&s)
		var held []NUMAGrant
		alone := map[int]bool{}
		for range 12 {
			r := drawRequest(t)
			g, ok := OfferNUMA(&s, &f, r)
			if !ok || g.IsZero() {
				continue
			}
			cpus, memory := g.Excess(r)
			if cpus < 0 || memory < 0 || r.Binding != Exclusive && (cpus >= int64(max(s.Threads, 1)) || memory != 0) || r.Binding == BoundShared && cpus != 0 {
				t.Fatalf("%v for %v: %d CPUs and %d MiB beyond the request", g, r, cpus, memory)
			}
			f.Commit(&g)
			held = append(held, g)
			for z := range MaxNUMANodes {
				touched := g.CPUs[z] > 0 || g.Memory[z] > 0
				if overdrawn(&f[z]) || touched && alone[z] {
					t.Fatalf("%v after %v", f, held)
				}
				alone[z] = alone[z] || touched && r.Binding == Exclusive
			}
		}
		for _, g := range held {
			f.Release(&g)
		}
		if f != NewNUMAFree(&s) {
			t.Fatalf("after releasing everything %v is left", f)
		}
	})
}

// overdrawn reports what no offers alone can lead to.
func overdrawn(m *NUMARoom) bool {
	return m.CPUs < 0 || m.Memory < 0 || m.Intensive > 0 && m.Sensitive > 0
}

func TestLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rooms [MaxNUMANodes]int64
		set, total := uint8(rapid.Byte().Draw(t, "set")), int64(0)
		for z := range rooms {
			rooms[z] = int64(rapid.IntRange(0, 9).Draw(t, "room"))
			if set&(1<<z) != 0 {
				total += rooms[z]
			}
		}
		amount := int64(rapid.IntRange(0, 80).Draw(t, "amount"))
		parts := SpreadEvenly(set, amount, func(z int) int64 { return rooms[z] })
		given, most := int64(0), int64(0)
		for z, n := range parts {
			if n < 0 || n > rooms[z] || n > 0 && set&(1<<z) == 0 {
				t.Fatalf("%v of room %v for set %b", parts, rooms, set)
			}
			given += n
			most = max(most, n)
		}
		if given != min(amount, total) {
			t.Fatalf("poured %d of %d into room %v: %v", given, amount, rooms, parts)
		}
		for z, n := range parts {
			if set&(1<<z) != 0 && n < rooms[z] && n < most-1 {
				t.Fatalf("NUMA node %d has %d of %d, another has %d", z, n, rooms[z], most)
			}
		}
	})
}

func TestNUMAChoices(t *testing.T) {
	s := NUMAShape{Ruler: RulerAgent, NUMANodes: 4, Threads: 2, BindsShared: true, SeparatesBandwidth: true, NUMANode: [MaxNUMANodes]NUMACapacity{{8, 0, 100}, {8, 0, 100}, {8, 1, 100}, {8, 1, 100}}}
	whole := NewNUMAFree(&s)
	for _, c := range []struct {
		name string
		r    NUMARequest
		free func(*NUMAFree)
		want string
	}{
		{"the lowest of equals", NUMARequest{CPUs: 3}, nil, "0:4"},
		{"best fit", NUMARequest{CPUs: 4}, func(f *NUMAFree) { f[2].CPUs = 4; f[3].CPUs = 6 }, "2:4"},
		{"one socket, evenly", NUMARequest{CPUs: 10, Binding: Bound, Memory: 51}, func(f *NUMAFree) { f[0].CPUs = 0 }, "2:6/26Mi,3:4/25Mi"},
		{"a full NUMA node is filled first", NUMARequest{CPUs: 10}, func(f *NUMAFree) { f[0].CPUs, f[2].CPUs, f[3].CPUs = 2, 0, 0 }, "0:2,1:8"},
		{"memory decides", NUMARequest{CPUs: 2, Binding: Bound, Memory: 150}, nil, "0:2/75Mi,1:0/75Mi"},
		{"unbound memory does not", NUMARequest{CPUs: 2, Memory: 150}, nil, "0:2"},
		{"whole NUMA nodes", NUMARequest{CPUs: 2, Binding: Exclusive, Memory: 101}, nil, "0:8/100Mi,1:8/100Mi"},
		{"unused NUMA nodes", NUMARequest{CPUs: 2, Binding: Exclusive}, func(f *NUMAFree) { f[0].Claims = 1; f[1].CPUs = 6 }, "2:8/100Mi"},
		{"memory that is overdrawn is not asked for", NUMARequest{CPUs: 16}, func(f *NUMAFree) { f[0].Memory = -1; f[2].CPUs = 0 }, "0:8,1:8"},
		{"a pod that shares CPUs takes as many as it asks for", NUMARequest{CPUs: 3, Binding: BoundShared, Memory: 50}, nil, "0:3/50Mi"},
		{"and fills a core that another one began", NUMARequest{CPUs: 3, Binding: BoundShared}, func(f *NUMAFree) { f[0].CPUs, f[1].CPUs = 7, 3 }, "1:3"},
		{"which is no room for a core", NUMARequest{CPUs: 4}, func(f *NUMAFree) { f[0].CPUs, f[1].CPUs, f[2].CPUs, f[3].CPUs = 1, 3, 5, 1 }, "2:4"},
		{"too much", NUMARequest{CPUs: 33}, nil, ""},
		{"not beside pods that suffer", NUMARequest{CPUs: 2, Bandwidth: BandwidthIntensive}, func(f *NUMAFree) { f[0].Sensitive, f[1].Intensive = 1, 1 }, "1:2,intensive"},
		{"not beside pods that load the memory", NUMARequest{CPUs: 2, Binding: Bound, Memory: 5, Bandwidth: BandwidthSensitive}, func(f *NUMAFree) { f[0].Intensive = 1 }, "1:2/5Mi,sensitive"},
		{"what says nothing gets on with all", NUMARequest{CPUs: 2}, func(f *NUMAFree) { f[0].Intensive, f[0].Sensitive = 1, 1 }, "0:2"},
	} {
		f := whole
		if c.free != nil {
			c.free(&f)
		}
		g, ok := OfferNUMA(&s, &f, c.r)
		if g.String() != c.want || ok != (c.want != "") || ok && !f.Fits(&s, c.r, &g) {
			t.Errorf("%s: %v %v, want %s", c.name, g, ok, c.want)
		}
	}
}

func TestNUMAWords(t *testing.T) {
	for r, want := range map[Ruler]string{RulerNone: "none", RulerAgent: "agent", RulerKubelet: "kubelet"} {
		if r.String() != want {
			t.Errorf("%d is %q", r, r)
		}
	}
	for b, want := range map[Binding]string{Unbound: "unbound", Bound: "NUMA-bound", Exclusive: "NUMA-exclusive", BoundShared: "NUMA-bound, sharing CPUs"} {
		if b.String() != want {
			t.Errorf("%d is %q", b, b)
		}
	}
	for _, text := range []string{"", "0", "0:", "8:1", "-1:1", "0:1,0:2", "0:65536", "0:1/5", "0:1/5Gi", "0:1/Mi", "0:0", "0:0/0Mi", "0:1,,1:1", "0:1/4294967296Mi", "sensitive", ",sensitive", "0:1,heavy", "0:1,sensitive,intensive"} {
		if g, err := ParseNUMAGrant(text); err == nil || !g.IsZero() {
			t.Errorf("%q reads as %v", text, g)
		}
	}
}

// TestNUMAGrantReadsBack: a grant is what its text says.
func TestNUMAGrantReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g NUMAGrant
		for z := range MaxNUMANodes {
			if rapid.Bool().Draw(t, "cpus?") {
				g.CPUs[z] = rapid.Uint16().Draw(t, "cpus")
			}
			if rapid.Bool().Draw(t, "memory?") {
				g.Memory[z] = rapid.Uint32().Draw(t, "memory")
			}
		}
		if g.IsZero() {
			return
		}
		g.Bandwidth = Bandwidth(rapid.IntRange(0, 2).Draw(t, "bandwidth"))
		if again, err := ParseNUMAGrant(g.String()); err != nil || again != g {
			t.Fatalf("%v reads back as %v (%v)", g, again, err)
		}
	})
}

func FuzzParseNUMAGrant(f *testing.F) {
	f.Add("0:8/4096Mi,1:8/4096Mi")
	f.Add(" 7:65535 , 0:0/1Mi")
	f.Add("00:08/0Mi")
	f.Add("0:8/4096Mi, sensitive")
	f.Add("intensive,0:1")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseNUMAGrant(text)
		if err != nil {
			return
		}
		if g.IsZero() {
			t.Fatalf("%q reads as nothing", text)
		}
		again, err := ParseNUMAGrant(g.String())
		if err != nil || again != g {
			t.Fatalf("%q reads as %v, which reads back as %v (%v)", text, g, again, err)
		}
	})
}
