package fragment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// pricesBytes is the length of what MarshalBinary writes. A test holds it to the fields of Prices.
const pricesBytes = 8 * (levels*(parts+2) + 1)

// MarshalBinary writes prices for another process.
func (p *Prices) MarshalBinary() ([]byte, error) {
	text := make([]byte, 0, pricesBytes)
	for _, x := range p.numbers() {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(*x))
	}
	return text, nil
}

// UnmarshalBinary reads what MarshalBinary wrote.
func (p *Prices) UnmarshalBinary(text []byte) error {
	if len(text) != pricesBytes {
		return fmt.Errorf("prices of %d bytes; want %d", len(text), pricesBytes)
	}
	for i, x := range p.numbers() {
		*x = math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))
		if math.IsNaN(*x) || math.IsInf(*x, 0) {
			return fmt.Errorf("a price is %v", *x)
		}
	}
	return nil
}

// hostKindBytes is the length of a kind of pod and its price.
const hostKindBytes = 3 * 8

// MarshalBinary writes prices for another process.
func (p *HostPrices) MarshalBinary() ([]byte, error) {
	text := make([]byte, 0, len(p.kinds)*hostKindBytes)
	for i := range p.kinds {
		k := &p.kinds[i]
		text = binary.LittleEndian.AppendUint64(text, uint64(k.cpu))    //nolint:gosec // as it is
		text = binary.LittleEndian.AppendUint64(text, uint64(k.memory)) //nolint:gosec // as it is
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(k.price))
	}
	return text, nil
}

// UnmarshalBinary reads what MarshalBinary wrote.
func (p *HostPrices) UnmarshalBinary(text []byte) error {
	if len(text)%hostKindBytes != 0 || len(text) > MaxHostKinds*hostKindBytes {
		return fmt.Errorf("prices of room of %d bytes; want %d for each of at most %d kinds", len(text), hostKindBytes, MaxHostKinds)
	}
	p.kinds = nil
	for ; len(text) > 0; text = text[hostKindBytes:] {
		k := hostKind{
			cpu: int64(binary.LittleEndian.Uint64(text)), memory: int64(binary.LittleEndian.Uint64(text[8:])), //nolint:gosec // as it was
			price: math.Float64frombits(binary.LittleEndian.Uint64(text[16:])),
		}
		if k.cpu < 0 || k.memory < 0 || k.cpu+k.memory <= 0 || math.IsNaN(k.price) || math.IsInf(k.price, 0) {
			return fmt.Errorf("the price of room for %d thousandths of a CPU and %d bytes is %v", k.cpu, k.memory, k.price)
		}
		p.kinds = append(p.kinds, k)
	}
	return nil
}

// Clone is a copy that a later Learn does not change.
func (p *HostPrices) Clone() *HostPrices { return &HostPrices{slices.Clone(p.kinds)} }

// numbers are all that prices consist of, in the order in which they are written.
func (p *Prices) numbers() (list []*float64) {
	add := func(r *row) {
		for i := range r {
			list = append(list, &r[i])
		}
	}
	add(&p.cpu)
	for i := range p.free {
		add(&p.free[i])
	}
	return append(list, &p.together)
}
