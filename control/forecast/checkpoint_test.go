package forecast

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A series that is read from a checkpoint at any step predicts what the one that was not stopped does.
func TestCheckpointPredictsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(step, rapid.SampledFrom([]time.Duration{0, step, 3 * step}).Draw(t, "lead"))
		p.Periods, p.Kept, p.Errors = []time.Duration{6 * time.Hour, 24 * time.Hour}, rapid.IntRange(2, 4).Draw(t, "kept"), rapid.IntRange(1, 60).Draw(t, "errors")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		stays, restarts := NewSeries(&p), NewSeries(&p)
		for i := range 450 { // far beyond what is kept
			if random.IntN(20) == 0 {
				continue
			}
			at, load := start.Add(time.Duration(i)*step), float64(int(tide(i))+random.IntN(20))
			stays.See(load, at)
			restarts.See(load, at)
			if random.IntN(12) == 0 {
				data, err := restarts.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				if restarts, err = Restore(&p, data, at.Add(time.Minute)); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if a, b := stays.Predict(), restarts.Predict(); a != b {
				t.Fatalf("step %d: %+v, and after a restart %+v", i, a, b)
			}
		}
	})
}

// The largest load and the longest lead stay within the bound.
func TestCheckpointIsBounded(t *testing.T) {
	t.Parallel()
	p := DefaultParams(5*time.Minute, 12*time.Hour)
	s := NewSeries(&p)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range s.window() {
		s.loads = append(s.loads, float64(random.IntN(1<<24)))
		s.newest = start.UnixNano()/int64(p.Step) + int64(i)
	}
	for i := range s.periods {
		for range p.Errors {
			s.periods[i].errors = append(s.periods[i].errors, single(random.NormFloat64()))
		}
		for range s.lead() + 1 {
			s.periods[i].waiting = append(s.periods[i].waiting, waiting{until: s.newest, middle: single(random.Float64()), then: single(random.Float64()), most: single(random.Float64())})
		}
	}
	data, err := s.Checkpoint()
	if err != nil || len(data) > MaxCheckpoint {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	t.Logf("%d bytes", len(data))
}

// Whatever the bytes are, they are refused or make a series whose predictions are numbers.
func FuzzRestore(f *testing.F) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	feed(s, 5, tide)
	good, err := s.Checkpoint()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add(good[:len(good)/2])
	now := start.Add(5 * 24 * time.Hour)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Restore(&p, data, now)
		if err != nil {
			if !errors.Is(err, ErrCheckpoint) {
				t.Errorf("%v is no refusal", err)
			}
			return
		}
		s.See(1, now.Add(step))
		if r := s.Predict(); !(r.High >= 0) {
			t.Errorf("%+v", r)
		}
	})
}
