package topology

import "math/bits"

const (
	// exactGPUs is up to how many candidates the best connected ones are always found.
	exactGPUs = 8
	// connectSteps is how many sets of more candidates are looked at.
	connectSteps = 4096
)

// connected chooses this many of a set of GPUs, the best connected: with the best least link between two of them, then the largest sum of links,
// then the smallest sum of links to candidates that are left, so that those stay connected, then the lowest indices. Of up to eight candidates
// it is the best of all sets. Of more it is the best that was seen: the greedy ones that grow from each GPU, and 4096 steps of the search.
func (v *View) connected(set uint16, want int) uint16 {
	c := connection{want: want}
	d := v.Shape.Devices
	n := v.Shape.count()
	for ; set != 0; set &= set - 1 {
		c.gpu[c.n] = uint8(bits.TrailingZeros16(set))
		c.n++
	}
	if c.n == want || d == nil || d.Owner != OwnerHilbert || len(d.Links) != n*n || !c.read(d.Links, n) {
		var lowest uint16
		for _, gpu := range c.gpu[:want] {
			lowest |= 1 << gpu
		}
		return lowest
	}
	if c.n > exactGPUs {
		c.steps = connectSteps
		for seed := range c.n {
			c.grow(seed)
		}
	} else {
		c.steps = 1 << exactGPUs
	}
	c.search(0, connected{least: c.most})
	return c.best.gpus(&c)
}

// connection is the search for the best connected GPUs among candidates. It stays on the stack.
type connection struct {
	n, want, steps int
	gpu            [MaxGPUs]uint8 // by candidate
	link           [MaxGPUs][MaxGPUs]uint8
	row            [MaxGPUs]int32 // sums of links
	most           uint8          // the best link of all
	best           connected
	found          bool
}

// connected is a set of candidates, and how well they are connected.
type connected struct {
	set   uint16
	count int
	least uint8
	sum   int32
	rows  int32 // the sum of the rows of its candidates
}

// gpus are the candidates by the index of the GPU.
func (s *connected) gpus(c *connection) (set uint16) {
	for left := s.set; left != 0; left &= left - 1 {
		set |= 1 << c.gpu[bits.TrailingZeros16(left)]
	}
	return set
}

// better reports whether a set is better connected. Those of one size whose links have one sum leave the less connected the larger their rows are.
func (s *connected) better(than *connected) bool {
	switch {
	case s.least != than.least:
		return s.least > than.least
	case s.sum != than.sum:
		return s.sum > than.sum
	}
	return s.rows < than.rows
}

// read copies the links between candidates. False: they are all alike.
func (c *connection) read(links []uint8, stride int) bool {
	least := uint8(255)
	for a := range c.n {
		for b := a + 1; b < c.n; b++ {
			l := links[int(c.gpu[a])*stride+int(c.gpu[b])]
			c.link[a][b], c.link[b][a] = l, l
			c.row[a] += int32(l)
			c.row[b] += int32(l)
			c.most, least = max(c.most, l), min(least, l)
		}
	}
	return c.most != least
}

// with is a set and one candidate more.
func (c *connection) with(s connected, candidate int) connected {
	for left := s.set; left != 0; left &= left - 1 {
		l := c.link[candidate][bits.TrailingZeros16(left)]
		s.least = min(s.least, l)
		s.sum += int32(l)
	}
	s.set |= 1 << candidate
	s.count++
	s.rows += c.row[candidate]
	return s
}

func (c *connection) take(s *connected) {
	if !c.found || s.better(&c.best) {
		c.best, c.found = *s, true
	}
}

// grow takes the candidate that connects best, again and again.
func (c *connection) grow(seed int) {
	s := c.with(connected{least: c.most}, seed)
	for s.count < c.want {
		var next connected
		for candidate := range c.n {
			if s.set&(1<<candidate) != 0 {
				continue
			}
			if one := c.with(s, candidate); next.count == 0 || one.better(&next) {
				next = one
			}
		}
		s = next
	}
	c.take(&s)
}

// search goes through the sets that have s and candidates from a number on, in the order of their indices, and leaves out what cannot be better.
func (c *connection) search(from int, s connected) {
	if s.count == c.want {
		c.take(&s)
		return
	}
	missing := c.want - s.count - 1
	for candidate := from; candidate+missing < c.n && c.steps > 0; candidate++ {
		c.steps--
		one := c.with(s, candidate)
		pairs := c.want*(c.want-1)/2 - one.count*(one.count-1)/2
		if c.found && (one.least < c.best.least || one.least == c.best.least && one.sum+int32(pairs)*int32(c.most) < c.best.sum) {
			continue
		}
		c.search(candidate+1, one)
	}
}

// nearest chooses this many of a set of network cards. One after the other it is the card on a switch of the GPUs, on the one from which fewer cards
// were taken; then the card with the least bandwidth left, then the fewest functions, then the lowest index.
func (v *View) nearest(set uint16, want int, gpus uint16) (chosen uint16) {
	var beside [MaxNICs]bool
	d := v.Shape.Devices
	for left := set; left != 0 && d.Owner == OwnerHilbert; left &= left - 1 {
		i := bits.TrailingZeros16(left)
		for g := gpus; g != 0 && !beside[i]; g &= g - 1 {
			s := d.GPU[bits.TrailingZeros16(g)].Switch
			beside[i] = s != NoPlace && s == d.NIC[i].Switch
		}
	}
	for range want {
		best, least := -1, [4]int{}
		for left := set &^ chosen; left != 0; left &= left - 1 {
			i := bits.TrailingZeros16(left)
			order := [4]int{0, 0, int(v.Devices.Bandwidth[i]), int(v.Devices.Functions[i])}
			if beside[i] {
				order[1] = v.taken(chosen, d.NIC[i].Switch)
			} else {
				order[0] = 1
			}
			if best < 0 || lessThan(order, least) {
				best, least = i, order
			}
		}
		chosen |= 1 << best
	}
	return chosen
}

// taken is how many of a set of cards are below a switch.
func (v *View) taken(set uint16, pciSwitch uint8) (n int) {
	for ; set != 0; set &= set - 1 {
		if v.Shape.Devices.NIC[bits.TrailingZeros16(set)].Switch == pciSwitch {
			n++
		}
	}
	return n
}

func lessThan(a, b [4]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
