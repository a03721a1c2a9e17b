package fragment

import (
	"cmp"
	"math"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Params tune a Market.
type Params struct {
	// Supply is how much is looked ahead: the GPUs that are expected to be asked for, as a multiple of what is free.
	Supply float64
	// Rounds of bidding in one Learn. The prices of the second half are averaged.
	Rounds int
	// Step is how far a price moves in the first round, in thousandths for half a GPU.
	Step float64
	// Nodes is the most nodes that bid; of more, a sample does.
	Nodes int
	// Together is what eight whole GPUs of one node are worth more than eight single ones on different nodes, in thousandths of a GPU. The worth is by
	// the square of how many there are, so that pods go where fewer are left. The auction does not see it: for it several GPUs are as many pods of one.
	Together float64
	// Hedge is the part, from 0 to 1, of a piece's worth that is FGD's measure (what a request drawn from the mix could use of it), rather than
	// the market's price.
	Hedge float64
	// Scarcity is how much more a GPU is worth, as a part of one, of a model that is all wanted by pods that not every model can serve.
	Scarcity float64
}

// Defaults are the parameters that were tuned on generated mixes.
func Defaults() Params {
	return Params{Supply: 0.5, Rounds: 40, Step: 60, Nodes: 256, Hedge: 0.25, Together: 16, Scarcity: 0.25}
}

// cpuPrices are the levels of the CPU's price, as multiples of a GPU divided by the CPU that the mean request wants beside a whole GPU.
var cpuPrices = row{0, 0.05, 0.1, 0.2, 0.33, 0.5, 0.66, 0.88, 1.1, 1.4, 1.75, 2.2} //nolint:gochecknoglobals // a constant

// Market finds prices for the requests of a mix by letting the nodes bid for them. Nodes buy what fills them best, or keep their whole GPUs whole;
// what is bought more than it arrives becomes more expensive, and what is bought less, cheaper, if necessary below 0. That is the dual of the
// fractional cutting of what is free into the requests that are expected next with the fewest whole GPUs touched, solved by a subgradient.
//
// The zero value, with Params, is ready; before the first Learn all is worth nothing.
type Market struct {
	Params Params

	items      []item
	lastPrices map[itemKey]float64 // prices from one Learn to the next
	tables     []*priceTable
	filler     filler
	cpu        row
	empty      Prices
}

// itemKey is what the market distinguishes.
type itemKey struct {
	parts  int8 // hundredths of a GPU
	cpu    int8 // millicores beside it, by ratio
	models Models
}

// cpuSteps is how many kinds of CPU demand a factor of e has.
const cpuSteps = 8

// item is requests of nearly one kind. Several whole GPUs are as many items.
type item struct {
	key    itemKey
	cpu    float64 // millicores, mean
	supply float64 // how many are expected
	price  float64 // thousandths of a GPU
	bought float64 // in this round
}

// priceTable is the prices for all models that are allowed by the same requests.
type priceTable struct {
	models  []string
	items   []int32          // by parts
	own     []int32          // of these, those that not all tables have
	filling [levels]*filling // in this round, up to level filled
	filled  int              // levels that are computed in this round: nodes with little CPU left alone ask for the higher ones
	sum     [levels][parts + 1]float64
	prices  *Prices

	capacity float64 // thousandths of the GPUs
	largest  int     // the most GPUs of a node
	bound    float64 // of capacity: what pods want that not all tables can serve
}

// bidder is nodes in the market that have the same free.
type bidder struct {
	demand
	nodes float64
}

// demand is what bids depend on.
type demand struct {
	cpu   float64
	table *priceTable
	free  [topology.MaxGPUs]int8 // hundredths
	gpus  int
}

// At returns the prices for nodes of a model. They hold until the next Learn.
func (m *Market) At(model string) *Prices {
	if b := m.tableOf(model); b != nil {
		return b.prices
	}
	return &m.empty
}

// tableOf returns the table of a model, nil where the latest Learn saw none of it.
func (m *Market) tableOf(model string) *priceTable {
	for _, b := range m.tables {
		if slices.Contains(b.models, model) {
			return b
		}
	}
	return nil
}

// Learn finds prices for a mix and for what is free, with a mark-up where GPUs are scarce by the demand; nil: none. It reports false, and leaves the prices as they are, where nothing is asked for or nothing is
// free.
func (m *Market) Learn(mix *Mix, demand *Demand, nodes []Node) bool {
	free := int64(0)
	for i := range nodes {
		free += nodes[i].Free.Total(nodes[i].Shape)
	}
	if !m.loadItems(mix, float64(free)) {
		return false
	}
	bidders := m.bidders(nodes)
	// Supplies are scaled to the sample, by what its nodes have free.
	held := 0.0
	for i := range bidders {
		for _, f := range bidders[i].free[:bidders[i].gpus] {
			held += float64(float64(f) * milliPerPart * bidders[i].nodes)
		}
	}
	for i := range m.items {
		m.items[i].supply *= held / float64(free)
	}
	m.filler.begin(m.items, m.tables, &m.cpu)
	averaged := m.Params.Rounds - m.Params.Rounds/2
	for round := range m.Params.Rounds {
		m.bid(bidders)
		if 2*round >= m.Params.Rounds {
			m.average(averaged)
		}
		m.adjust(round)
	}
	for _, b := range m.tables {
		b.settle()
	}
	if h := m.Params.Hedge; h > 0 {
		m.hedge(h)
	}
	m.markUp(demand, nodes)
	m.keepPrices()
	return true
}

// loadItems makes the items from the mix and works out how many of each are expected. It reports false when there are none.
func (m *Market) loadItems(mix *Mix, free float64) bool {
	index := make(map[itemKey]int)
	m.items = m.items[:0]
	wanted, cpu := 0.0, 0.0
	for i := range mix.kinds {
		k := &mix.kinds[i]
		total := k.request.GPU.Total()
		if total == 0 {
			continue
		}
		pieces := float64(max(k.request.GPU.Whole, 1))
		key, beside := keyOf(&k.request)
		at, ok := index[key]
		if !ok {
			at = len(m.items)
			index[key] = at
			m.items = append(m.items, item{key: key, price: m.lastPrices[key]})
		}
		it := &m.items[at]
		it.supply += float64(k.count * pieces)
		it.cpu += float64(beside * k.count * pieces)
		wanted += float64(k.count * float64(total))
		cpu += float64(k.count * float64(k.request.CPU))
	}
	if wanted == 0 || free == 0 {
		return false
	}
	for i := range m.items {
		m.items[i].cpu /= m.items[i].supply
		m.items[i].supply *= m.Params.Supply * free / wanted
	}
	slices.SortFunc(m.items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.key.parts, b.key.parts), cmp.Compare(a.key.cpu, b.key.cpu), cmp.Compare(a.key.models.list, b.key.models.list))
	})
	for l := range m.cpu {
		m.cpu[l] = cpuPrices[l] * wanted / max(cpu, 1)
	}
	return true
}

func keyOf(r *Request) (key itemKey, beside float64) {
	beside = float64(r.CPU)
	key.parts, key.models = parts, r.Models
	if r.GPU.Milli > 0 {
		key.parts = int8((r.GPU.Milli + milliPerPart - 1) / milliPerPart)
	} else {
		beside /= float64(r.GPU.Whole)
	}
	key.cpu = ratioStep(beside/1000 + 0.5)
	return key, beside
}

// ratioStep is the logarithm of x, at least 0.5, in steps of a factor of e to the power of 1/cpuSteps: the same on all machines, which a logarithm need
// not be.
func ratioStep(x float64) (step int8) {
	const ratio, first = 1.1331484530668263, 0.5028315779709409 // e^(1/8), and e^(-5.5/8), which is between two steps
	step = -6
	for bound := first; x >= bound && step < math.MaxInt8; step++ {
		bound *= ratio
	}
	return step
}

// bidders takes the nodes that have something free, a sample if they are many, and makes the price tables for their models.
func (m *Market) bidders(nodes []Node) []bidder {
	m.tables = m.tables[:0]
	byModel := make(map[string]*priceTable)
	for i := range nodes {
		if s := &nodes[i].Shape; s.GPUs > 0 && byModel[s.Model] == nil {
			byModel[s.Model] = m.tableFor(s.Model)
		}
	}
	count := 0
	for i := range nodes {
		if nodes[i].Free.Total(nodes[i].Shape) > 0 {
			count++
		}
	}
	stride := max(1, (count+m.Params.Nodes-1)/max(m.Params.Nodes, 1))
	var list []bidder
	index := make(map[demand]int)
	for i, seen := 0, 0; i < len(nodes); i++ {
		n := &nodes[i]
		if n.Free.Total(n.Shape) == 0 {
			continue
		}
		if seen++; seen%stride != 0 {
			continue
		}
		d := demand{cpu: float64(max(n.CPU, 0)), table: byModel[n.Shape.Model]}
		for g := range n.Shape.GPUs {
			if f := n.Free[g] / milliPerPart; f > 0 {
				d.free[d.gpus] = int8(f)
				d.gpus++
			}
		}
		at, known := index[d]
		if !known {
			at = len(list)
			index[d] = at
			list = append(list, bidder{demand: d})
		}
		list[at].nodes++
	}
	return list
}

// tableFor returns the table of the models that take the same items, and makes one if there is none.
func (m *Market) tableFor(model string) *priceTable {
	var items []int32
	for i := range m.items {
		if m.items[i].key.models.Allows(model) {
			items = append(items, int32(i))
		}
	}
	for _, b := range m.tables {
		if slices.Equal(b.items, items) {
			b.models = append(b.models, model)
			return b
		}
	}
	b := &priceTable{models: []string{model}, items: items, prices: &Prices{}}
	b.prices.cpu, b.prices.together = m.cpu, m.Params.Together/(togetherGPUs*togetherGPUs)
	m.tables = append(m.tables, b)
	return b
}

// bid lets every node buy its best filling.
func (m *Market) bid(bidders []bidder) {
	for i := range m.items {
		m.items[i].bought = 0
	}
	m.filler.round(m.items)
	for _, b := range m.tables {
		b.filled = 0
	}
	for i := range bidders {
		n := &bidders[i]
		level, worth := 0, 0.0
		for l := range levels {
			n.table.fill(&m.filler, l)
			at, bids := float64(m.cpu[l]*n.cpu), &n.table.filling[l].bids
			for _, f := range n.free[:n.gpus] {
				at += bids[f]
			}
			if l > 0 && at >= worth {
				break // convex
			}
			level, worth = l, at
		}
		choices := &n.table.filling[level].choice
		for _, f := range n.free[:n.gpus] {
			for at := int(f); at > 0; {
				choice := choices[at]
				if choice < 0 {
					break
				}
				m.items[choice].bought += n.nodes
				at -= int(m.items[choice].key.parts)
			}
		}
	}
}

// roundsToHalveStep is the number of rounds after which steps are half as long.
const roundsToHalveStep = 10

// adjust moves the prices towards balance.
func (m *Market) adjust(round int) {
	step := m.Params.Step / (1 + float64(round)/roundsToHalveStep)
	for i := range m.items {
		it := &m.items[i]
		it.price = max(-float64(it.key.parts)*milliPerPart, it.price+step*2*float64(it.key.parts)/parts*(it.bought-it.supply)/(it.bought+it.supply+1))
	}
}

// average adds the bids of this round to the prices, as one of several.
func (m *Market) average(several int) {
	for _, b := range m.tables {
		b.fill(&m.filler, levels-1)
		for l, filling := range b.filling {
			sum := &b.sum[l]
			for f, part := range filling.share(several) {
				sum[f] += part
			}
		}
	}
}

// settle makes prices of the sums.
func (b *priceTable) settle() {
	for l := range b.sum {
		for f, x := range b.sum[l] {
			b.prices.free[f][l] = x
		}
	}
}

// hedge blends in what a request drawn from the mix could use of a piece, less the CPU beside it: a piece that is too small for it is of no use.
// It tells apart what the market finds equally good, and looks further ahead than what is expected to arrive.
func (m *Market) hedge(h float64) {
	all := 0.0
	for i := range m.items {
		all += m.items[i].supply
	}
	for _, b := range m.tables {
		for l := range levels {
			var alone [parts + 1]float64
			for _, i := range b.items {
				it := &m.items[i]
				gain := float64(float64(it.key.parts)*milliPerPart) - float64(m.cpu[l]*it.cpu)
				if gain <= 0 {
					continue
				}
				expected := it.supply / all * gain
				for f := int(it.key.parts); f <= parts; f++ {
					alone[f] += expected * float64(f) / float64(it.key.parts)
				}
			}
			for f := range b.prices.free {
				b.prices.free[f][l] += float64(h * (alone[f] - b.prices.free[f][l]))
			}
		}
	}
}

// keepPrices carries the prices over to the next Learn.
func (m *Market) keepPrices() {
	if m.lastPrices == nil {
		m.lastPrices = make(map[itemKey]float64)
	}
	clear(m.lastPrices)
	for i := range m.items {
		m.lastPrices[m.items[i].key] = m.items[i].price
	}
}
