package topology

import (
	"slices"
	"testing"
)

// What is lacking: the least first, and of whole GPUs those that are held least.
func TestLacks(t *testing.T) {
	part := func(gpus uint16, milli int16, memory uint32) Grant {
		return Grant{GPUs: gpus, Milli: milli, Memory: memory, Isolation: Accounting}
	}
	whole := func(gpus uint16) Grant { return Grant{GPUs: gpus, Milli: FullGPU} }
	numa := Near{Level: SameNUMA, Required: true}
	for name, c := range map[string]struct {
		held   []Grant
		closed uint16
		r      Request
		want   []Lack
	}{
		"nothing for nothing": {nil, 0, Request{}, nil},
		"in the second NUMA node less is held": {
			[]Grant{whole(0b10_1110)}, 0, Request{Whole: 4, Near: numa}, []Lack{{GPUs: 0b10_0000, Level: SameNUMA}, {GPUs: 0b1110, Level: SameNUMA}},
		},
		"who is held least": {
			[]Grant{whole(0xf0), part(0b0001, 900, 1), part(0b0010, 100, 1), part(0b0100, 500, 1)},
			0,
			Request{Whole: 3, Near: numa},
			[]Lack{{GPUs: 0b0110, Level: SameNUMA}, {GPUs: 0b111_0000, Level: SameNUMA}},
		},
		"less of a part": {
			[]Grant{part(0b001, 704, 1), part(0b010, 600, 1), part(0b100, 800, 1)},
			0xf8,
			Request{Milli: 496, Memory: 10},
			[]Lack{{GPUs: 0b010, Milli: 96}, {GPUs: 0b010, Milli: 96}, {GPUs: 0b001, Milli: 200}, {GPUs: 0b001, Milli: 200}, {GPUs: 0b100, Milli: 296}, {GPUs: 0b100, Milli: 296}},
		},
		"whole grains of a soft one": {
			[]Grant{{GPUs: 1, Milli: 704, Memory: 1, Isolation: Soft}}, 0xfe, Request{Milli: 500, Memory: 10, Isolation: Soft}, []Lack{{GPUs: 1, Milli: 208}},
		},
		"compute and memory":                     {[]Grant{part(1, 704, 81920)}, 0xfe, Request{Milli: 496, Memory: 10}, nil},
		"neither, but a place among its clients": {[]Grant{part(1, 4, 1)}, 0xfe, Request{Milli: 496, Memory: 10, Isolation: Soft}, nil},
		"more memory than a GPU has":             {nil, 0, Request{Milli: 500, Memory: 81921}, nil},
	} {
		n, count := bigNode()
		n.shape.Devices.ClosedGPUs = c.closed
		v := count.view(n)
		for i := range c.held {
			v.Commit(&c.held[i])
		}
		if got := v.Lacks(&c.r, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
