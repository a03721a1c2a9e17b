package fragment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

func node(cpu int64, model string, free ...int32) Node {
	n := Node{CPU: cpu, Memory: 1 << 40, Shape: topology.Shape{GPUs: len(free), Model: model, Shareable: true}}
	copy(n.Free[:], free)
	return n
}

func slice(cpu int64, milli int16, models ...string) Request {
	return Request{CPU: cpu, GPU: topology.Request{Milli: milli}, Models: NewModels(models...)}
}

func whole(cpu int64, gpus int8) Request {
	return Request{CPU: cpu, GPU: topology.Request{Whole: gpus}}
}

func TestModels(t *testing.T) {
	for _, c := range []struct {
		models Models
		model  string
		want   bool
	}{
		{NewModels(), "T4", true},
		{NewModels("T4"), "T4", true},
		{NewModels("V100M16", "V100M32"), "V100M32", true},
		{NewModels("V100M16"), "V100M1", false},
		{NewModels("V100M16"), "", false},
	} {
		if got := c.models.Allows(c.model); got != c.want {
			t.Errorf("%v allows %q: %v, want %v", c.models, c.model, got, c.want)
		}
	}
	if NewModels("B", "A", "A") != NewModels("A", "B") {
		t.Error("the order of names makes another set")
	}
}

func TestFragmentation(t *testing.T) {
	for _, c := range []struct {
		name string
		node Node
		mix  Target
		want float64
	}{
		{"all usable", node(8000, "T4", 1000, 1000), Target{{slice(4000, 500), 1}}, 0},
		{"a piece too small", node(8000, "T4", 1000, 400), Target{{slice(4000, 500), 1}}, 400},
		{"no CPU", node(3000, "T4", 1000, 1000), Target{{slice(4000, 500), 1}}, 2000},
		{"another model", node(8000, "T4", 1000), Target{{slice(4000, 500, "G2"), 1}}, 1000},
		{"too few whole ones", node(8000, "T4", 1000, 900), Target{{whole(4000, 2), 1}}, 1900},
		{"asks for none", node(8000, "T4", 1000), Target{{Request{CPU: 1}, 1}}, 1000},
		{"expected", node(8000, "T4", 400), Target{{slice(1, 300), 0.25}, {slice(1, 500), 0.75}}, 300},
		{"nothing left", node(8000, "T4", 0), Target{{slice(1, 300), 1}}, 0},
	} {
		if got := c.mix.Fragmentation(&c.node); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGradientPrefersThePieceThatIsLostAnyway(t *testing.T) {
	mix := Target{{slice(1000, 800), 0.8}, {slice(1000, 200), 0.2}}
	n := node(64000, "T4", 1000, 200)
	r := slice(1000, 200)
	if _, gpu, ok := Gradient(&n, &r, mix.Fragmentation); !ok || gpu != 1 {
		t.Errorf("it goes to GPU %d (%v), want 1", gpu, ok)
	}
	r = slice(65000, 200)
	if _, _, ok := Gradient(&n, &r, mix.Fragmentation); ok {
		t.Error("it fits without CPU")
	}
}

func TestMixIsBounded(t *testing.T) {
	var m Mix
	often := whole(1, 1)
	for i := range 10 * MaxKinds {
		r := slice(int64(i), 500)
		m.Add(&r)
		m.Add(&often)
		m.Add(&often)
	}
	if m.Kinds() > MaxKinds {
		t.Errorf("%d kinds, want at most %d", m.Kinds(), MaxKinds)
	}
	if c := m.Common(0.5); len(c) == 0 || c[0].Request != often {
		t.Errorf("the most frequent is %v", c)
	}
	for range 2 * MaxSeen {
		m.Add(&often)
	}
	if m.Seen() > MaxSeen {
		t.Errorf("%v seen, want at most %v", m.Seen(), MaxSeen)
	}
}

// learned is a market over a cluster of equal nodes in which the kinds arrive equally often.
func learned(nodes []Node, kinds ...Request) *Market {
	var mix Mix
	for i := range kinds {
		for range 10 {
			mix.Add(&kinds[i])
		}
	}
	m := &Market{Params: Defaults()}
	m.Learn(&mix, nil, nodes)
	return m
}

// score is what a market thinks of a placement.
func score(m *Market, n *Node, r *Request) (float64, int) {
	p := m.At(n.Shape.Model)
	s := p.State(n)
	loss, gpu, ok := p.Score(n, &s, r)
	if !ok {
		return math.Inf(1), -1
	}
	return loss, gpu
}

func TestPricesSendRequestsWhereTheyCostLeast(t *testing.T) {
	var nodes []Node
	for range 20 {
		nodes = append(nodes, node(64000, "G2", 1000, 1000, 1000, 1000), node(16000, "P100", 1000, 1000))
	}
	m := learned(nodes, slice(4000, 810), slice(4000, 190), whole(20000, 1), whole(4000, 1), Request{CPU: 8000})
	for _, c := range []struct {
		name        string
		r           Request
		better, odd Node
	}{
		{"a leftover that fits exactly", slice(4000, 190), node(32000, "G2", 190, 1000), node(32000, "G2", 1000, 1000)},
		{"heavy to where CPU is", whole(20000, 1), node(64000, "G2", 1000, 1000), node(24000, "G2", 1000, 1000)},
		{"light to where CPU is short", whole(4000, 1), node(8000, "P100", 1000, 1000), node(64000, "G2", 1000, 1000)},
		{"one GPU to where fewer are left", whole(4000, 1), node(640000, "G2", 1000, 1000, 0, 0), node(640000, "G2", 1000, 1000, 1000, 0)},
		{"a part to where fewer are left", slice(4000, 810), node(640000, "G2", 1000, 0, 0, 0), node(640000, "G2", 1000, 1000, 1000, 0)},
		{"no GPU to where GPUs are taken", Request{CPU: 8000}, node(16000, "G2", 0, 0), node(16000, "G2", 1000, 1000)},
	} {
		a, _ := score(m, &c.better, &c.r)
		b, _ := score(m, &c.odd, &c.r)
		if !(a < b) {
			t.Errorf("%s: it costs %.0f, elsewhere %.0f", c.name, a, b)
		}
	}
	n := node(32000, "G2", 1000, 190)
	r := slice(4000, 190)
	if _, gpu := score(m, &n, &r); gpu != 1 {
		t.Errorf("190 goes to GPU %d, want 1", gpu)
	}
}

// worst is Score by its definition: the worth before less the least worth over all levels after, for the best GPU.
func worst(p *Prices, n *Node, r *Request) float64 {
	worth := func(n *Node) float64 {
		sum := 0.0
		for _, factor := range cpuFactors {
			lowest := math.Inf(1)
			for l := range levels {
				at := p.cpu[l] * float64(n.CPU) * factor
				for i := range n.Shape.GPUs {
					at += p.piece(n.Free[i])[l]
				}
				lowest = min(lowest, at)
			}
			sum += lowest
		}
		whole := 0.0
		for i := range n.Shape.GPUs {
			if n.Free[i] == topology.FullGPU {
				whole++
			}
		}
		return sum + ScoreUnit*whole*whole*Defaults().Together/64
	}
	best := math.Inf(1)
	if !n.Fits(r) {
		return best
	}
	for i := range max(n.Shape.GPUs, 1) {
		if r.GPU.Milli == 0 || n.Free[i] >= int32(r.GPU.Milli) {
			after := *n
			after.Take(r, i)
			best = min(best, worth(n)-worth(&after))
		}
	}
	return best
}

func drawRequest(t *rapid.T) Request {
	r := Request{CPU: rapid.Int64Range(0, 40).Draw(t, "cpu") * 500}
	switch rapid.IntRange(0, 3).Draw(t, "size") {
	case 0:
		r.GPU.Whole = rapid.Int8Range(1, 4).Draw(t, "whole")
	case 1, 2:
		r.GPU.Milli = rapid.Int16Range(1, 99).Draw(t, "percent") * 10
	}
	if !r.GPU.IsZero() && rapid.Bool().Draw(t, "bound") {
		r.Models = NewModels(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model"))
	}
	return r
}

func drawNode(t *rapid.T) Node {
	n := node(rapid.Int64Range(0, 128).Draw(t, "cpu")*500, rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "model"))
	n.Shape.GPUs = rapid.IntRange(0, 8).Draw(t, "gpus")
	for i := range n.Shape.GPUs {
		n.Free[i] = rapid.SampledFrom([]int32{0, 190, 400, 530, 1000, 1000}).Draw(t, "free")
	}
	return n
}

func TestScoreIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(drawNode), 1, 12).Draw(t, "nodes")
		kinds := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 6).Draw(t, "kinds")
		m := learned(nodes, kinds...)
		for i := range nodes {
			for k := range kinds {
				want := worst(m.At(nodes[i].Shape.Model), &nodes[i], &kinds[k])
				got, _ := score(m, &nodes[i], &kinds[k])
				if got != want && !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
					t.Fatalf("node %+v, request %+v: %v, want %v", nodes[i], kinds[k], got, want)
				}
			}
		}
	})
}

func gain(m *Market, i, l int) float64 {
	return float64(m.items[i].key.parts)*milliPerPart - m.items[i].price - float64(m.cpu[l]*m.items[i].cpu)
}

func kept(l int) float64 { return topology.FullGPU * (1 - cpuPrices[l]) }

// definition is what the best fillings of all pieces are worth by their definition, where every size is tried in every piece.
func definition(m *Market, b *priceTable, l int) (bids [parts + 1]float64) {
	for f := 1; f <= parts; f++ {
		for _, i := range b.items {
			if size := int(m.items[i].key.parts); size <= f {
				bids[f] = max(bids[f], gain(m, int(i), l)+bids[f-size])
			}
		}
	}
	bids[parts] = max(bids[parts], kept(l))
	return bids
}

// plain computes the filling of one table as it was done before tables shared any: in every piece all offers are tried, in order.
func plain(m *Market, b *priceTable, l int) (gains, bids [parts + 1]float64, choice [parts + 1]int16) {
	var best [parts + 1]int16
	for _, i := range b.items {
		if g, size := gain(m, int(i), l), m.items[i].key.parts; g > gains[size] {
			gains[size], best[size] = g, int16(i)
		}
	}
	if kept(l) > gains[parts] {
		gains[parts], best[parts] = kept(l), -1
	}
	var sizes []int
	choice[0] = -1
	for f := 1; f <= parts; f++ {
		choice[f] = -1
		for _, size := range sizes {
			if x := gains[size] + bids[f-size]; x > bids[f] {
				bids[f], choice[f] = x, best[size]
			}
		}
		if g := gains[f]; g > 0 && g > bids[f]-negligible {
			sizes = append(sizes, f)
			if g > bids[f] {
				bids[f], choice[f] = g, best[f]
			}
		}
	}
	return gains, bids, choice
}

// Over several rounds and for several tables, fillings are what the plain way gives, to the last bit, and what their definition says.
func TestFillingIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Market{cpu: cpuPrices}
		sizes := rapid.SliceOfN(rapid.Int8Range(1, parts), 1, 12).Draw(t, "sizes")
		slices.Sort(sizes)
		for _, size := range sizes {
			models := rapid.SampledFrom([]Models{{}, {}, NewModels("A"), NewModels("B"), NewModels("A", "B")}).Draw(t, "models")
			m.items = append(m.items, item{key: itemKey{parts: size, models: models}, cpu: 10 * float64(rapid.IntRange(0, 40).Draw(t, "cpu"))})
		}
		for _, model := range []string{"A", "B", "C"} {
			m.tableFor(model)
		}
		m.filler.begin(m.items, m.tables, &m.cpu)
		for range 3 {
			for i := range m.items {
				it := &m.items[i]
				it.price = rapid.SampledFrom([]float64{0, 0, 10, -20, 100.0 / 3, -10.1}).Draw(t, "price") * float64(it.key.parts) / 10
			}
			m.filler.round(m.items)
			for _, b := range m.tables {
				b.filled = 0
				b.fill(&m.filler, levels-1)
				for l := range levels {
					checkFilling(t, m, b, l)
				}
			}
		}
	})
}

func checkFilling(t *rapid.T, m *Market, b *priceTable, l int) {
	got := b.filling[l]
	gains, bids, choice := plain(m, b, l)
	if got.gain != gains || got.bids != bids || got.choice != choice {
		t.Fatalf("%v, level %d:\n%v\n%v\n%v\nwant\n%v\n%v\n%v", b.models, l, got.gain, got.bids, got.choice, gains, bids, choice)
	}
	for f, want := range definition(m, b, l) {
		worth, left := 0.0, f
		for left > 0 && choice[left] >= 0 {
			worth += gain(m, int(choice[left]), l)
			left -= int(m.items[choice[left]].key.parts)
		}
		if left == parts {
			worth = max(0, kept(l))
		}
		if math.Abs(bids[f]-want) > negligible || math.Abs(worth-want) > negligible {
			t.Fatalf("%v, a piece of %d at level %d: %v, and what is chosen is worth %v, want %v", b.models, f, l, bids[f], worth, want)
		}
	}
}

// Tables for which the same items gain the most have one filling.
func TestTablesShareFillings(t *testing.T) {
	m := &Market{cpu: cpuPrices, items: []item{
		{key: itemKey{parts: 40}}, {key: itemKey{parts: 50, models: NewModels("A")}, price: 600}, {key: itemKey{parts: 60, models: NewModels("B")}},
	}}
	for _, model := range []string{"A", "B", "C"} {
		m.tableFor(model)
	}
	m.filler.begin(m.items, m.tables, &m.cpu)
	m.filler.round(m.items)
	for _, b := range m.tables {
		b.fill(&m.filler, 0)
	}
	if a, b, c := m.tables[0].filling[0], m.tables[1].filling[0], m.tables[2].filling[0]; a != c || a == b {
		t.Errorf("the item of A alone gains nothing and that of B does: shared by A and C %v, by A and B %v", a == c, a == b)
	}
}

// Nodes that have the same free bid once, for all of them.
func TestNodesBidTogether(t *testing.T) {
	m := &Market{Params: Defaults()}
	like, other := node(8000, "A", 1000, 500), node(8000, "A", 1000, 400)
	bidders := m.bidders([]Node{like, other, like, node(8000, "A", 0, 0), like})
	if len(bidders) != 2 || bidders[0].nodes != 3 || bidders[1].nodes != 1 {
		t.Errorf("%+v", bidders)
	}
}

func TestTakeAndGive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, r := drawNode(t), drawRequest(t)
		if !n.Fits(&r) {
			return
		}
		before := n
		gpu := 0
		for r.GPU.Milli > 0 && n.Free[gpu] < int32(r.GPU.Milli) {
			gpu++
		}
		g := n.Take(&r, gpu)
		if left := before.Free.Total(n.Shape) - n.Free.Total(n.Shape); left != r.GPU.Total() {
			t.Fatalf("%d thousandths were taken for %+v", left, r)
		}
		if n.Give(&r, g); n != before {
			t.Fatalf("%+v after giving back, %+v before", n, before)
		}
	})
}

// BenchmarkLearn finds a price list for 20,000 nodes of 8 GPUs, of which half are in use, and 40 kinds of requests.
func BenchmarkLearn(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var mix Mix
	for range 40 {
		r := slice(int64(500*random.IntN(24)), int16(50+10*random.IntN(90)))
		if random.IntN(3) == 0 {
			r = whole(r.CPU, int8(1<<random.IntN(4)))
		}
		for range 1 + random.IntN(20) {
			mix.Add(&r)
		}
	}
	nodes := make([]Node, 20_000)
	for i := range nodes {
		n := node(int64(500*random.IntN(192)), "G2", 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
		for g := range random.IntN(8) {
			n.Free[g] = int32(10 * random.IntN(50))
		}
		nodes[i] = n
	}
	m := &Market{Params: Defaults()}
	b.ReportAllocs()
	for b.Loop() {
		m.Learn(&mix, nil, nodes)
	}
}
