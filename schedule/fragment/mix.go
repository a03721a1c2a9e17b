package fragment

import "slices"

// Bounds on what a Mix remembers.
const (
	// MaxKinds is the most kinds of requests that a Mix keeps apart.
	MaxKinds = 1024
	// MaxSeen is how many requests weigh in full: whenever as many were counted, all counts are halved, so that old ones fade.
	MaxSeen = 1 << 17
)

// Mix counts the requests that have arrived, by kind: it is the forecast of what will be asked for next. The number of kinds is bounded, and old arrivals
// fade, so a change of the workload changes the prices. The zero value is empty.
type Mix struct {
	index map[Request]int
	kinds []kindCount
	seen  float64
}

type kindCount struct {
	request Request
	count   float64
}

// Add counts one arrival.
func (m *Mix) Add(r *Request) {
	if m.index == nil {
		m.index = make(map[Request]int)
	}
	i, known := m.index[*r]
	if !known {
		if len(m.kinds) >= MaxKinds {
			m.forget()
		}
		i = len(m.kinds)
		m.index[*r] = i
		m.kinds = append(m.kinds, kindCount{request: *r})
	}
	m.kinds[i].count++
	if m.seen++; m.seen >= MaxSeen {
		m.fade()
	}
}

// Kinds is how many kinds are kept apart.
func (m *Mix) Kinds() int { return len(m.kinds) }

// Seen is the weight of all that was counted.
func (m *Mix) Seen() float64 { return m.seen }

// fade halves all counts.
func (m *Mix) fade() {
	m.seen = 0
	for i := range m.kinds {
		m.kinds[i].count /= 2
		m.seen += m.kinds[i].count
	}
}

// forget drops the rarer half of the kinds.
func (m *Mix) forget() {
	slices.SortStableFunc(m.kinds, func(a, b kindCount) int {
		switch {
		case a.count > b.count:
			return -1
		case a.count < b.count:
			return 1
		}
		return a.request.compare(&b.request)
	})
	m.kinds = m.kinds[:MaxKinds/2]
	clear(m.index)
	m.seen = 0
	for i := range m.kinds {
		m.index[m.kinds[i].request] = i
		m.seen += m.kinds[i].count
	}
}

// Share is a kind of request and its part of the arrivals.
type Share struct {
	Request Request
	Part    float64 // of one
}

// Common lists the most frequent kinds until they cover the part of all arrivals; their parts sum up to one. Memory is left out of the kinds,
// as the paper leaves it out.
func (m *Mix) Common(cover float64) []Share {
	merged := make(map[Request]float64)
	for i := range m.kinds {
		r := m.kinds[i].request
		r.Memory = 0
		merged[r] += m.kinds[i].count
	}
	list := make([]Share, 0, len(merged))
	for r, count := range merged {
		list = append(list, Share{r, count})
	}
	slices.SortFunc(list, func(a, b Share) int {
		switch {
		case a.Part > b.Part:
			return -1
		case a.Part < b.Part:
			return 1
		}
		return -a.Request.compare(&b.Request)
	})
	sum, n := 0.0, 0
	for n < len(list) && sum < cover*m.seen {
		sum += list[n].Part
		n++
	}
	list = list[:n]
	for i := range list {
		list[i].Part /= sum
	}
	return list
}

// Shares lists all kinds, with their memory.
func (m *Mix) Shares() []Share {
	list := make([]Share, len(m.kinds))
	for i := range m.kinds {
		list[i] = Share{m.kinds[i].request, m.kinds[i].count / m.seen}
	}
	return list
}
