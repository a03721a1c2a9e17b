package colocation

import (
	"math"
	"testing"
	"time"
)

func TestTheSteepestPartIsPlayed(t *testing.T) {
	row := make([]float64, syntheticPoints)
	for i := range row {
		row[i] = 20
		if i >= 120 {
			row[i] = 80
		}
	}
	tide := newTide("a step", false, [][]float64{row}, 30*time.Minute)
	if before, after := tide.at(0, 0), tide.at(0, 30*60); before != 0.25 || after != 1 {
		t.Errorf("the half hour goes from %g to %g, want 0.25 to 1", before, after)
	}
	if before := tide.at(0, -1000); before != 0.25 {
		t.Errorf("before its beginning the load is %g, want that of the beginning", before)
	}
	for kind := range apps {
		made := SyntheticTide(30 * time.Minute)
		if rise := made.at(kind, 1800) - made.at(kind, 0); rise < 0.3 {
			t.Errorf("service %d of the made-up morning rises by %g", kind, rise)
		}
	}
}

func TestTheRushRises(t *testing.T) {
	r := Rush{At: time.Minute, For: time.Minute, Rise: 10 * time.Second, Factor: 2}
	for second, want := range map[float64]float64{60: 1, 65: 1.5, 70: 2, 120: 2, 121: 1} {
		if got := r.factor(second); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %g s the factor is %g, want %g", second, got, want)
		}
	}
}

// What is drawn from names is spread evenly, and a service's neighbour draws another number.
func TestWhatIsDrawnIsSpread(t *testing.T) {
	const n = 2000
	sum, close := 0.0, 0
	for i := range n {
		x, next := drawn(serviceName(i), "level"), drawn(serviceName(i+1), "level")
		sum += x
		if math.Abs(x-next) < 0.01 {
			close++
		}
		if x < 0 || x >= 1 {
			t.Fatalf("%g", x)
		}
	}
	if mean := sum / n; math.Abs(mean-0.5) > 0.03 || close > n/20 {
		t.Errorf("mean %g; %d of %d are close to the next", mean, close, n)
	}
}

// The control places jobs until no more fit, never more than there is, and takes others when some are done.
func TestTheControlKeepsToRequests(t *testing.T) {
	l := &load{tide: SyntheticTide(time.Hour), began: time.Unix(0, 0)}
	m, model := machine(), (&load{}).model()
	services := []placed{{"service-0-0000", 0}, {"service-1-0000", 1}}
	c := newControl(l, [][]placed{services, {}}, &model.Params, &m)
	for s := range 1200 {
		busy := c.step(time.Unix(int64(s), 0))
		for i, n := range c.nodes {
			cpus := 0
			for _, k := range n.held {
				cpus += k.cpus
			}
			if free := m.CPUs() - cpus - len(n.services)*10; n.cpus < 0 || n.bytes < 0 || free > 8 && s > 0 {
				t.Fatalf("second %d, node %d: %d CPUs left, %d of jobs", s, i, n.cpus, cpus)
			}
		}
		if all := float64(2 * m.CPUs()); busy <= 0 || busy > all {
			t.Fatalf("second %d: %g of %g CPUs are busy", s, busy, all)
		}
	}
	if c.done == 0 {
		t.Error("no job was done in twenty minutes")
	}
}

// The simulator's day is whole, and more is used with Hilbert than without.
func TestTheSimulatedDay(t *testing.T) {
	d, err := Simulate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const quartersOfADay = 95 // the last minute of the last one is still open
	if len(d.Hilbert) < quartersOfADay || len(d.Requests) != len(d.Hilbert) {
		t.Fatalf("%d and %d quarters of an hour", len(d.Hilbert), len(d.Requests))
	}
	with, without := 0.0, 0.0
	for i := range d.Hilbert {
		with, without = with+d.Hilbert[i], without+d.Requests[i]
	}
	if with < without*1.2 {
		t.Errorf("used with Hilbert %g, without %g", with/96, without/96)
	}
}
