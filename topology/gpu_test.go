package topology

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// oracle says by exhaustion whether any set of GPUs could serve the request.
func oracle(s Shape, f *Free, r Request) bool {
	for set := uint16(0); set < 1<<s.GPUs; set++ {
		g := Grant{GPUs: set, Milli: FullGPU}
		want := int(r.Whole)
		if r.Milli > 0 {
			g.Milli, want = r.Milli, 1
		}
		if bits.OnesCount16(set) != want {
			continue
		}
		fits := r.Milli == 0 || s.Shareable
		for i := range s.GPUs {
			if set&(1<<i) != 0 && (f[i] < int32(g.Milli) || r.Whole > 0 && f[i] != FullGPU) {
				fits = false
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// TestOfferAgainstOracle runs random streams of commits and releases: Offer finds a grant exactly when one exists, what it offers fits
// and is what was asked for, and Release undoes Commit.
func TestOfferAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{GPUs: rapid.IntRange(0, 5).Draw(t, "gpus"), Shareable: rapid.Bool().Draw(t, "share")}
		f := NewFree(s)
		var held []Grant
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "release") == 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				f.Release(held[i])
				held = append(held[:i], held[i+1:]...)
				continue
			}
			r := Request{Milli: int16(rapid.IntRange(1, 999).Draw(t, "milli"))}
			if rapid.Bool().Draw(t, "whole") {
				r = Request{Whole: int8(rapid.IntRange(1, 4).Draw(t, "count"))}
			}
			g, ok := OfferGPUs(s, &f, r)
			if want := oracle(s, &f, r); ok != want {
				t.Fatalf("%v on %v: offered %v, oracle says %v", r, f, ok, want)
			}
			if !ok {
				continue
			}
			if !f.Fits(s, g) {
				t.Fatalf("offered %v does not fit %v", g, f)
			}
			want := g
			if r.Milli > 0 {
				want.Isolation = Accounting // as it is read: nothing keeps counters apart
			}
			var parsed Grant
			if err := parsed.ParseGPUs(g.String(), &r); err != nil || parsed != want {
				t.Fatalf("grant %v reads back as %v (%v)", g, parsed, err)
			}
			f.Commit(g)
			held = append(held, g)
		}
		checkSums(t, s, f, held)
	})
}

func checkSums(t *rapid.T, s Shape, f Free, held []Grant) {
	var total int64
	for i := range s.GPUs {
		if f[i] < 0 || f[i] > FullGPU {
			t.Fatalf("GPU %d has %d free", i, f[i])
		}
	}
	for _, g := range held {
		total += int64(bits.OnesCount16(g.GPUs)) * int64(g.Milli)
	}
	if got := f.Total(s) + total; got != int64(s.GPUs)*FullGPU {
		t.Fatalf("%d free and %d held of %d", f.Total(s), total, s.GPUs*FullGPU)
	}
	for _, g := range held {
		f.Release(g)
	}
	if f != NewFree(s) {
		t.Fatalf("after releasing everything %v is free", f)
	}
}

func TestOfferIsBestFit(t *testing.T) {
	s := Shape{GPUs: 3, Shareable: true}
	f := Free{1000, 300, 450}
	if g, _ := OfferGPUs(s, &f, Request{Milli: 300}); g.String() != "1" {
		t.Errorf("300 went to GPU %s, want the one with exactly 300 left", g)
	}
	if g, _ := OfferGPUs(s, &f, Request{Milli: 301}); g.String() != "2" {
		t.Errorf("301 went to GPU %s, want the fullest that has room", g)
	}
	if _, ok := OfferGPUs(Shape{GPUs: 3}, &f, Request{Milli: 300}); ok {
		t.Error("a fraction was offered on GPUs that are not shareable")
	}
}

func TestForceNeverFails(t *testing.T) {
	s := Shape{GPUs: 2, Shareable: true}
	f := Free{100, 400}
	v := View{Shape: &s, Free: &f}
	g := v.Force(&Request{Whole: 2}, nil)
	v.Commit(&g)
	if f[0] != -900 || f[1] != -600 {
		t.Errorf("forced two whole GPUs onto a full node: %v", f)
	}
	if f.Total(s) != 0 {
		t.Errorf("over-committed counters count as %d free", f.Total(s))
	}
}

// FuzzParseGPUs: what a pod that asks for something is recorded to have reads back as the same.
func FuzzParseGPUs(f *testing.F) {
	f.Add("0", int16(500), int8(0))
	f.Add("0,3", int16(0), int8(2))
	f.Add(" 1 ,1,,x", int16(0), int8(2))
	f.Fuzz(func(t *testing.T, text string, milli int16, whole int8) {
		r := Request{Milli: milli, Whole: whole}
		var g, again Grant
		if g.ParseGPUs(text, &r) != nil {
			return
		}
		if err := again.ParseGPUs(g.GPUText(), &r); err != nil || again != g {
			t.Fatalf("%q reads as %v, which reads back as %v (%v)", text, g, again, err)
		}
	})
}
