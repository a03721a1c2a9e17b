package fragment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// All of Prices goes over the wire, and comes back.
func TestPricesAreWrittenWhole(t *testing.T) {
	if size := unsafe.Sizeof(Prices{}); size != pricesBytes {
		t.Errorf("prices have %d bytes, of which %d are written: write the new field too", size, pricesBytes)
	}
	var want, got Prices
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range want.numbers() {
		*x = rng.Float64()
	}
	text, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := got.UnmarshalBinary(text); err != nil || got != want {
		t.Errorf("prices differ, or %v", err)
	}
	if err := got.UnmarshalBinary(text[1:]); err == nil {
		t.Error("a byte was missing")
	}
}

// Prices of room go over the wire, and come back; what cannot be prices is refused.
func TestHostPricesAreWrittenWhole(t *testing.T) {
	want := HostPrices{[]hostKind{{8000, 1 << 30, 0.5}, {0, 1 << 34, 0.25}, {250, 0, 3}}}
	text, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got HostPrices
	if err := got.UnmarshalBinary(text); err != nil || !slices.Equal(got.kinds, want.kinds) {
		t.Errorf("prices differ: %v, %v", got, err)
	}
	if err := got.UnmarshalBinary(nil); err != nil || len(got.kinds) != 0 {
		t.Errorf("no prices are %v, %v", got, err)
	}
	large := make([]byte, (MaxHostKinds+1)*hostKindBytes)
	nothing := make([]byte, hostKindBytes)
	for what, text := range map[string][]byte{"a byte is missing": text[1:], "too many": large, "a kind that asks for nothing": nothing} {
		if err := got.UnmarshalBinary(text); err == nil {
			t.Errorf("%s, and it is taken: %v", what, got)
		}
	}
	if text, err = (&HostPrices{[]hostKind{{1, 1, math.NaN()}}}).MarshalBinary(); err != nil || got.UnmarshalBinary(text) == nil {
		t.Errorf("a price that is no number is taken: %v", err)
	}
}
