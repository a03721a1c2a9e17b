package fragment

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// filling is the best filling of each piece of a GPU, at one round's prices and one level of the CPU's price.
type filling struct {
	gain   [parts + 1]float64 // of the best item of each size
	best   [parts + 1]int16   // that item; -1: kept whole
	own    []int32            // of these items, those that not all tables have
	bids   [parts + 1]float64 // what the best filling of a piece is worth
	choice [parts + 1]int16   // an item of it; -1: none
	shares [parts + 1]float64 // bids divided
	shared bool               // whether shares are known
}

// share is the bids divided by a number, the same one at each call.
func (f *filling) share(several int) *[parts + 1]float64 {
	if !f.shared {
		for i, bid := range f.bids {
			f.shares[i] = bid / float64(several)
		}
		f.shared = true
	}
	return &f.shares
}

// filler computes the fillings of a round. Tables for which the same items gain the most share a filling: often the items that they do not have in
// common gain nothing.
type filler struct {
	sizes  []int8             // of the items
	costs  [levels][]float64  // of the CPU beside each item
	gains  [levels][]float64  // of each item, in this round
	base   []float64          // the same without the CPU
	common []int32            // items that all tables have
	most   [levels]filling    // of these items, those that gain the most
	known  [levels]bool       // whether gains and most are computed
	made   [levels][]*filling // in this round
	spare  []*filling
	offers offers
}

// begin prepares for the items and tables of one Learn.
func (f *filler) begin(items []item, tables []*priceTable, cpu *row) {
	f.sizes, f.base = f.sizes[:0], slices.Grow(f.base[:0], len(items))[:len(items)]
	for i := range items {
		f.sizes = append(f.sizes, items[i].key.parts)
	}
	for l := range levels {
		f.gains[l], f.costs[l] = slices.Grow(f.gains[l][:0], len(items))[:len(items)], f.costs[l][:0]
		for i := range items {
			f.costs[l] = append(f.costs[l], cpu[l]*items[i].cpu)
		}
	}
	held := make([]int, len(items))
	for _, b := range tables {
		for _, i := range b.items {
			held[i]++
		}
	}
	f.common = f.common[:0]
	for i, tablesWith := range held {
		if tablesWith == len(tables) {
			f.common = append(f.common, int32(i))
		}
	}
	for _, b := range tables {
		for _, i := range b.items {
			if held[i] < len(tables) {
				b.own = append(b.own, i)
			}
		}
	}
}

// round takes the prices of a round. All fillings of the round before are void.
func (f *filler) round(items []item) {
	for i := range items {
		f.base[i] = float64(float64(items[i].key.parts)*milliPerPart) - items[i].price
	}
	for l := range levels {
		f.known[l] = false
		f.spare = append(f.spare, f.made[l]...)
		f.made[l] = f.made[l][:0]
	}
}

// fill computes the best filling of each piece at the levels of the CPU's price up to this one.
func (b *priceTable) fill(f *filler, upTo int) {
	for ; b.filled <= upTo; b.filled++ {
		b.filling[b.filled] = f.fill(b.own, b.filled)
	}
}

// fill returns the filling of a level for a table that has these items of its own.
func (f *filler) fill(own []int32, l int) *filling {
	f.know(l)
	next := f.take()
	next.gain, next.best = f.most[l].gain, f.most[l].best
	next.offer(f, own, l)
	for _, made := range f.made[l] {
		if slices.Equal(made.own, next.own) {
			f.spare = append(f.spare, next)
			return made
		}
	}
	// A whole GPU may be kept for later, with the CPU that a mean request wants.
	if kept := topology.FullGPU * (1 - cpuPrices[l]); kept > next.gain[parts] {
		next.gain[parts], next.best[parts] = kept, -1
	}
	next.fill(&f.offers)
	f.made[l] = append(f.made[l], next)
	return next
}

func (f *filler) take() *filling {
	last := len(f.spare) - 1
	if last < 0 {
		return &filling{}
	}
	next := f.spare[last]
	f.spare = f.spare[:last]
	next.own, next.shared = next.own[:0], false
	return next
}

// know computes what is the same for all tables.
func (f *filler) know(l int) {
	if f.known[l] {
		return
	}
	f.known[l] = true
	for i, cost := range f.costs[l] {
		f.gains[l][i] = f.base[i] - cost
	}
	m := &f.most[l]
	m.gain, m.best, m.own = [parts + 1]float64{}, [parts + 1]int16{}, m.own[:0]
	m.offer(f, f.common, l)
}

// offer takes the items that gain more than those that it has of their sizes, or as much and come before. Items are in order of their sizes.
func (f *filling) offer(r *filler, items []int32, l int) {
	gains := r.gains[l]
	for _, i := range items {
		g, size := gains[i], r.sizes[i]
		if g < f.gain[size] || g <= 0 || g == f.gain[size] && int16(i) > f.best[size] {
			continue
		}
		f.gain[size], f.best[size] = g, int16(i)
		if last := len(f.own) - 1; last >= 0 && r.sizes[f.own[last]] == size {
			f.own[last] = i
		} else {
			f.own = append(f.own, i)
		}
	}
}

// negligible is by how much, in thousandths of a GPU, sums of floats may seem better than they are.
const negligible = 1e-6

// fill finds the best filling of each piece, from the smallest up. A piece is worth more than the one before only where an offer ends that begins where
// another piece is worth more; so what is computed is the sums of an offer and such a piece, which are few.
//
// Of offers that are worth the same the smaller one is chosen.
func (f *filling) fill(o *offers) {
	o.count, o.risen = 0, 0
	f.bids = [parts + 1]float64{} // until its turn comes, the best sum that ends at a piece
	f.choice[0] = -1
	worth, item, chosen := 0.0, int16(-1), 0
	for piece := 1; piece <= parts; piece++ {
		if sum := f.bids[piece]; sum > 0 && sum >= worth && (sum > worth || o.by[piece] < chosen) {
			chosen = o.by[piece]
			worth, item = sum, o.item[chosen]
		}
		// A size that smaller ones fill better is never looked at again: in a larger piece they do so too.
		if g := f.gain[piece]; g > 0 && g > worth-negligible {
			o.add(f, piece)
			if g > worth {
				worth, item, chosen = g, f.best[piece], o.count-1
			}
		}
		if worth != f.bids[piece-1] {
			o.rises(f, piece, worth)
		}
		f.bids[piece], f.choice[piece] = worth, item
	}
}

// offers are the sizes that may be the best filling of some piece, and the pieces that are worth more than the one before. They are scratch of fill.
type offers struct {
	count int
	size  [parts]int
	gain  [parts]float64
	item  [parts]int16
	by    [parts + 1]int // the offer of the best sum that ends at a piece

	risen int
	at    [parts]int
	worth [parts]float64
}

// add puts the largest size so far in.
func (o *offers) add(f *filling, size int) {
	g := f.gain[size]
	o.size[o.count], o.gain[o.count], o.item[o.count] = size, g, f.best[size]
	for r := range o.risen {
		end := o.at[r] + size
		if end > parts {
			break
		}
		if sum := g + o.worth[r]; sum > f.bids[end] {
			f.bids[end], o.by[end] = sum, o.count
		}
	}
	o.count++
}

// rises notes that a piece is worth more than the one before.
func (o *offers) rises(f *filling, piece int, worth float64) {
	o.at[o.risen], o.worth[o.risen] = piece, worth
	o.risen++
	for i := range o.count {
		end := piece + o.size[i]
		if end > parts {
			break
		}
		// What is there ends with a larger offer, since its piece is smaller.
		if sum := o.gain[i] + worth; sum >= f.bids[end] {
			f.bids[end], o.by[end] = sum, i
		}
	}
}
