package kubelet

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	none := ID{Minor: -1, Index: -1, GI: -1, CI: -1, Replica: -1}
	with := func(f func(*ID)) ID {
		id := none
		f(&id)
		return id
	}
	for text, want := range map[string]ID{
		"GPU-27b94a00-ed54-5c24-b1fd-1054085de32a":         with(func(id *ID) { id.UUID = "GPU-27b94a00-ed54-5c24-b1fd-1054085de32a" }),
		"GPU-27b94a00-ed54-5c24-b1fd-1054085de32a::11":     with(func(id *ID) { id.UUID, id.Replica = "GPU-27b94a00-ed54-5c24-b1fd-1054085de32a", 11 }),
		"MIG-3b94f4ea-a6b1-5d8d-8c0d-3f7a6d9b2c11":         with(func(id *ID) { id.UUID = "MIG-3b94f4ea-a6b1-5d8d-8c0d-3f7a6d9b2c11" }),
		"MIG-3b94f4ea-a6b1-5d8d-8c0d-3f7a6d9b2c11::0":      with(func(id *ID) { id.UUID, id.Replica = "MIG-3b94f4ea-a6b1-5d8d-8c0d-3f7a6d9b2c11", 0 }),
		"MIG-GPU-27b94a00-ed54-5c24-b1fd-1054085de32a/7/0": with(func(id *ID) { id.UUID, id.GI, id.CI = "GPU-27b94a00-ed54-5c24-b1fd-1054085de32a", 7, 0 }),
		"3":                with(func(id *ID) { id.Index = 3 }),
		"3::2":             with(func(id *ID) { id.Index, id.Replica = 3, 2 }),
		"nvidia0":          with(func(id *ID) { id.Minor = 0 }),
		"nvidia12/gi3":     with(func(id *ID) { id.Minor, id.GI = 12, 3 }),
		"nvidia0/vgpu4":    with(func(id *ID) { id.Minor, id.Replica, id.slashed = 0, 4, true }),
		"nvidia1/gi2/vgpu": none, "nvidia1/gi2/vgpu0": with(func(id *ID) { id.Minor, id.GI, id.Replica, id.slashed = 1, 2, 0, true }),
		"0000:3b:00.0":     with(func(id *ID) { id.Address = "0000:3b:00.0" }),
		"00000000:3B:00.0": with(func(id *ID) { id.Address = "0000:3b:00.0" }),
		"":                 none, "GPU-": none, "GPU-a b": none, "GPU-a::": none, "GPU-a::x": none, "GPU-a::-1": none, "GPU-a::01": none, "GPU-a/1/0": none,
		"MIG-": none, "MIG-GPU-a/1": none, "MIG-GPU-a/x/0": none, "-1": none, "+1": none, "007": none, "0:1": none, "99999999": none, "all": none,
		"nvidia": none, "nvidiactl": none, "nvidia0::1": none, "nvidia0/": none, "nvidia0/gi": none, "nvidia0/vgpu1/gi1": none,
		"0001:3b:00": none, "00010000:3b:00.0": none, "0000-3b-00.0": none, "000g:3b:00.0": none, strings.Repeat("GPU-a", 40): none,
	} {
		got, ok := Parse(text)
		if ok != (want != none) || ok && got != want {
			t.Errorf("%q: %+v, %t; want %+v", text, got, ok, want)
		}
	}
}

// FuzzParse: what is read is written so that it is read again, and a name means one kind of thing.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"GPU-27b9-1::3", "MIG-GPU-a/7/0::1", "MIG-b", "nvidia0/gi1/vgpu3", "12", "00000000:3B:00.0"} {
		f.Add(text)
	}
	slots := twoGPUs()
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := Parse(text)
		if !ok {
			return
		}
		kinds := 0
		for _, is := range []bool{id.UUID != "", id.Address != "", id.Minor >= 0, id.Index >= 0} {
			if is {
				kinds++
			}
		}
		if again, ok := Parse(id.String()); !ok || again != id || kinds != 1 || len(text) > maxID {
			t.Fatalf("%q: %+v, written %q, read %+v %t", text, id, id.String(), again, ok)
		}
		p, found := id.find(slots)
		if !found {
			return
		}
		if p.GPU >= len(slots) || p.GPU < 0 && id.Address == "" || p.GPU >= 0 && p.Instance >= len(slots[p.GPU].Instances) {
			t.Fatalf("%q is found at %+v", text, p)
		}
	})
}
