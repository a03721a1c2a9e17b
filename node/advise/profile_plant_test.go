package advise

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// service plant: what a service does with its CPUs. Its latency is in shares of its service time.
type plant struct {
	// delayed: the indicator is run delay, by how busy the pool is; else it is the 99th percentile of latency.
	delayed bool
	// load is how many CPUs the service keeps busy, backlog what it has not got round to, in CPU seconds.
	load, backlog float64
	// gain is an exponent: with 2 the indicator answers to the CPUs with twice the gain around the target.
	gain, target float64
	// noise is the deviation of the logarithm of what is told. It is told every scrape seconds, so many later.
	noise       float64
	scrape, lag int
	told        []Sample
	mean        float64
	count       int
	r           *rand.Rand
}

// indicator is what the service really feels in a second with so many CPUs.
func (p *plant) indicator(cpus float64) float64 {
	p.backlog = max(0, p.backlog+p.load-cpus)
	busy := min(0.99, p.load/cpus)
	waiting := math.Pow(busy, math.Sqrt(2*(cpus+1))) / (1 - busy) // threads; Sakasegawa, as in queue
	value := waiting/p.load + p.backlog/cpus
	if !p.delayed {
		value = 1 + 4.6*waiting/p.load + p.backlog/cpus
	}
	return p.target * math.Pow(value/p.target, p.gain)
}

// second passes one, and returns what can be read of the indicator then.
func (p *plant) second(at int, cpus float64) Sample {
	p.mean += p.indicator(cpus)
	p.count++
	now := Sample{}
	if len(p.told) > 0 {
		now = p.told[len(p.told)-1]
	}
	if at%p.scrape == 0 {
		now = Known(p.mean / float64(p.count) * math.Exp(p.r.NormFloat64()*p.noise))
		p.mean, p.count = 0, 0
	}
	p.told = append(p.told, now)
	return p.told[max(0, len(p.told)-1-p.lag)]
}

// loop is a plant and the law around it. The pool gets what it should have at once, and loses at most a quarter in 10 s: that is how cores are lent.
type loop struct {
	plant   plant
	profile Profile
	params  ProfileParams
	state   Steering
	reading Reading
	has     float64
	at      int
	cpus    []int     // as advised, by the second
	errors  []float64 // ln of the indicator over its target, as it really is
	blind   bool      // the indicator is missing
	stuck   bool      // the pool keeps what it has
}

func newLoop(seed uint64) *loop {
	return &loop{
		plant:   plant{load: 10, gain: 1, target: 1.5, scrape: 10, r: rand.New(rand.NewPCG(seed, 7))},
		profile: Profile{Name: "shop/web", Targets: []Target{{Value: 1.5}}, LeastCPUs: 2, MostCPUs: 96, Period: 10 * time.Second},
		params:  ProfileDefaults(), has: 24,
	}
}

// run passes seconds in which the load goes to another.
func (l *loop) run(seconds int, to float64) {
	from := l.plant.load
	for i := range seconds {
		l.at++
		l.plant.load = from + (to-from)*float64(i+1)/float64(seconds)
		l.profile.Targets[0].Value = l.plant.target
		seen := l.plant.second(l.at, l.has)
		if l.blind {
			seen = Sample{}
		}
		l.reading.At, l.reading.Has, l.reading.Most = time.Duration(l.at)*time.Second, int(l.has), 256
		l.reading.Error, l.reading.Whole = l.profile.judge([]*Service{{Indicators: []Sample{seen}}})
		n, ok := Steer(&l.profile, &l.params, l.reading, &l.state)
		if !ok {
			n = int(l.has)
		}
		l.cpus = append(l.cpus, n)
		l.errors = append(l.errors, math.Log(l.plant.indicator(l.has)/l.plant.target))
		l.plant.backlog = max(0, l.plant.backlog+l.has-l.plant.load) // the question has cost nothing
		switch {
		case l.stuck:
		case float64(n) > l.has:
			l.has = float64(n)
		case l.at%10 == 0:
			l.has = max(float64(n), l.has-math.Ceil(l.has/4))
		}
	}
}

// outcome is what is to be said of some seconds.
type outcome struct {
	// settled is after how many periods the advice stayed within a tenth, or one CPU, of where it ended; least and most are its extremes.
	settled, least, most, last int
	// slow is how many periods after the beginning the indicator was last more than a fifth too high, in the first half.
	slow int
	// answered is after how many periods it was not for the first time, for 20 s.
	answered int
	// turns is how often it changed direction in the second half, late the share of the second half in which the indicator was more than a fifth too high.
	turns int
	late  float64
	// moves is how often it changed at all in the second half.
	moves int
}

func (l *loop) outcome(from int) outcome {
	cpus, errors := l.cpus[from:], l.errors[from:]
	o := outcome{least: cpus[0], most: cpus[0], last: cpus[len(cpus)-1]}
	direction, fine := 0, 0
	for i, n := range cpus {
		o.least, o.most = min(o.least, n), max(o.most, n)
		if fine++; errors[i] > math.Log(1.2) {
			fine = 0
		}
		if fine == 20 && o.answered == 0 {
			o.answered = max(1, (i+1-fine+9)/10)
		}
		if d := n - o.last; max(d, -d) > max(1, o.last/10) {
			o.settled = i/10 + 1
		}
		if 2*i < len(cpus) || i == 0 {
			if errors[i] > math.Log(1.2) {
				o.slow = i/10 + 1
			}
			continue
		}
		if errors[i] > math.Log(1.2) {
			o.late += 2 / float64(len(cpus))
		}
		now := 0
		switch {
		case n > cpus[i-1]:
			now = 1
		case n < cpus[i-1]:
			now = -1
		}
		if now != 0 {
			o.moves++
			if direction != 0 && now != direction {
				o.turns++
			}
			direction = now
		}
	}
	return o
}

func (o outcome) String() string {
	return fmt.Sprintf("%d CPUs, from %d to %d; last too slow in period %d, settled after %d; in the second half %d moves, %d turns, %.1f %% of the time too slow",
		o.last, o.least, o.most, o.slow, o.settled, o.moves, o.turns, 100*o.late)
}

// plot draws the CPUs and how far the indicator is from its target, in columns of equal time.
func (l *loop) plot(from int) string {
	const columns, rows = 60, 8
	cpus, errors := l.cpus[from:], l.errors[from:]
	most := 1
	for _, n := range cpus {
		most = max(most, n)
	}
	var b strings.Builder
	for row := range rows {
		low := float64(most) * float64(rows-1-row) / rows
		line := make([]byte, 0, columns)
		for c := range columns {
			mark := byte(' ')
			if float64(cpus[c*len(cpus)/columns]) > low {
				mark = '#'
			}
			line = append(line, mark)
		}
		fmt.Fprintf(&b, "%4.0f |%s\n", math.Ceil(low+float64(most)/rows), strings.TrimRight(string(line), " "))
	}
	line := make([]byte, 0, columns)
	for c := range columns { // the worst of the column
		part := errors[c*len(errors)/columns : max((c+1)*len(errors)/columns, c*len(errors)/columns+1)]
		worst := math.Inf(-1)
		for _, e := range part {
			worst = max(worst, e)
		}
		line = append(line, grade2mark(worst))
	}
	fmt.Fprintf(&b, "miss |%s\n", line)
	return b.String()
}

// grade2mark is + and ! above the target, - and = below it, by a tenth or a third; . is at it.
func grade2mark(e float64) byte {
	switch {
	case e > 0.7:
		return '!'
	case e > 0.1:
		return '+'
	case e < -0.4:
		return '='
	case e < -0.1:
		return '-'
	}
	return '.'
}
