package fragment

import (
	"math/rand/v2"
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
