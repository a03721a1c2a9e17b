package fragment

import (
	"encoding/binary"
	"fmt"
	"math"
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
