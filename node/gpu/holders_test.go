package gpu_test

import (
	"maps"
	"testing"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

func TestHeld(t *testing.T) {
	var h gpu.Held
	h.Add(&topology.Grant{GPUs: 0b101, Milli: topology.FullGPU})
	h.Add(&topology.Grant{GPUs: 0b1000, Instance: 1})
	h.Add(&topology.Grant{GPUs: 0b1000, Instance: 3})
	want := gpu.Held{GPUs: 0b1101}
	want.Instances[3] = 0b101
	if h != want {
		t.Errorf("%b", h)
	}
}

func TestStrangers(t *testing.T) {
	process := func(pid int, name string, graphics bool) gpu.Process {
		return gpu.Process{PID: pid, Name: name, Graphics: graphics}
	}
	inv := &gpu.Inventory{GPUs: []gpu.GPU{
		{Address: "a", Processes: []gpu.Process{process(1, "python3", false)}},
		{Address: "b", Processes: []gpu.Process{process(1, "python3", false), process(2, "/usr/bin/python3", false)}},
		{Address: "c", Processes: []gpu.Process{process(3, "/usr/lib/xorg/Xorg", true), process(4, "/usr/bin/nvidia-cuda-mps-server", false)}},
		{Address: "d"},
	}}
	got := gpu.Strangers(inv, func(pid int, address string) bool { return pid == 1 && address != "d" })
	if want := map[string]string{"b": "process 2 (python3) uses it, and it was not given to it"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
