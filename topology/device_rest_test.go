package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestRestAgainstOffer: what is said to be left of a GPU is what Offer gives of it where it is the only one, and no more.
func TestRestAgainstOffer(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 7))
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		s := &deviceChoices{data}
		n := s.node()
		c := newCounters(n)
		v := c.view(n)
		for range s.below(5) {
			r, z := s.deviceRequest()
			if r.Contradiction(&z) != "" {
				continue
			}
			g, ok := v.Offer(&r, &z)
			if !ok && s.below(4) == 0 {
				g = v.Force(&r, &z)
			}
			v.Commit(&g)
		}
		for i := range v.GPUs() {
			if err := restMatches(v, i, seen); err != nil {
				t.Fatalf("seed %d: GPU %d of %+v with %+v: %v", seed, i, *v.Shape.Devices, c, err)
			}
		}
	}
	for _, what := range []string{"closed", "whole", "part", "instance", "left and useless"} {
		if seen[what] < 10 {
			t.Errorf("%q was seen %d times only", what, seen[what])
		}
	}
}

// A soft slice is whole grains, so that what is left beside others is not all to be had.
func TestRestOfGrains(t *testing.T) {
	d := &Devices{Owner: OwnerHilbert, GPU: []GPU{{Memory: 1000, Grain: 300, Clients: 4, Strengths: StrengthsOf(Soft)}}}
	free, left := NewFree(Shape{Devices: d}), NewDeviceFree(d)
	v := &View{Shape: &Shape{Devices: d}, Free: &free, Devices: &left}
	v.Commit(&Grant{GPUs: 1, Milli: 300, Memory: 10, Isolation: Soft})
	if rest := v.Rest(0); rest != (GPURest{Left: 700, Part: 600, Parts: 3}) {
		t.Errorf("%+v", rest)
	}
	if err := restMatches(v, 0, map[string]int{}); err != nil {
		t.Error(err)
	}
}

// A soft slice is no smaller than the least that the driver limits a process to, so that less than that is of no use.
func TestRestBelowTheLeastSlice(t *testing.T) {
	d := &Devices{Owner: OwnerHilbert, GPU: []GPU{{Memory: 1000, Grain: 100, Least: 400, Clients: 4, Strengths: StrengthsOf(Soft)}}}
	free, left := NewFree(Shape{Devices: d}), NewDeviceFree(d)
	v := &View{Shape: &Shape{Devices: d}, Free: &free, Devices: &left}
	for _, want := range []GPURest{{Left: 600, Part: 600, Parts: 3}, {Left: 200}} {
		g, ok := v.Offer(&Request{Milli: 20, Memory: 1, Isolation: Soft}, nil)
		if !ok || g.Milli != 400 {
			t.Fatalf("%t, %+v", ok, g)
		}
		v.Commit(&g)
		if rest := v.Rest(0); rest != want {
			t.Errorf("%+v, want %+v", rest, want)
		}
		if err := restMatches(v, 0, map[string]int{}); err != nil {
			t.Error(err)
		}
	}
}

func restMatches(v *View, i int, seen map[string]int) error {
	d := *v.Shape.Devices
	d.ClosedGPUs |= ^uint16(1 << i)
	alone := *v
	alone.Shape = &Shape{Devices: &d}
	fits := func(r Request) bool {
		_, ok := alone.Offer(&r, nil)
		return ok
	}
	part := int32(0)
	for milli := int16(1); milli < FullGPU; milli++ {
		for _, namespace := range []string{"", "a", "b"} {
			if fits(Request{Milli: milli, Memory: 1, Tenant: TenantOf(namespace)}) {
				part = int32(milli)
			}
		}
	}
	rest, whole := v.Rest(i), fits(Request{Whole: 1})
	switch {
	case rest.Whole != whole:
		return fmt.Errorf("%+v, and given whole: %v", rest, whole)
	case min(rest.Part, FullGPU-1) != part:
		return fmt.Errorf("%+v, and the largest part is %d", rest, part)
	case (rest.Parts > 0) != (part > 0):
		return fmt.Errorf("%+v parts, and the largest part is %d", rest, part)
	case rest.Closed && (whole || part > 0):
		return fmt.Errorf("%+v gives", rest)
	}
	count := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	count("closed", rest.Closed)
	count("whole", whole)
	count("part", part > 0 && part < FullGPU-1)
	count("instance", part > 0 && len(d.GPU[i].Instances) > 0)
	count("left and useless", part == 0 && !whole && rest.Left > 0 && !rest.Closed)
	return nil
}
