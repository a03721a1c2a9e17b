package inject

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/gputest"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/topology"
)

const specification = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
 {"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
 {"name": "GPU-b", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}},
 {"name": "MIG-x", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia2"}, {"path": "/dev/nvidia-caps/nvidia-cap21"}]}}],
 "containerEdits": {"mounts": [{"hostPath": "/lib/libcuda.so.590.44.01", "containerPath": "/lib/libcuda.so.590.44.01"}]}}`

// node is a node with two whole GPUs and a divided one, after some lines of gputest.
func node(t *testing.T, lines ...string) (*Node, *gpu.Inventory) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(specification), 0o600); err != nil {
		t.Fatal(err)
	}
	catalog, err := cdi.ReadCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	driver, params := gputest.New(t), gpu.Defaults()
	look := func(m gpu.State) (gpu.State, gpu.View, *gpu.Inventory) {
		o := driver.Observation()
		o.Held.GPUs, o.Held.Instances[2] = 0b111, 0b1
		if o.Inventory != nil {
			o.Uninjectable = Uninjectable(o.Inventory, catalog)
		}
		m, v := gpu.Step(&params, m, &o)
		return m, v, o.Inventory
	}
	for _, line := range []string{
		"add 0000:01:00.0 uuid=GPU-a", "add 0000:02:00.0 uuid=GPU-b", "add 0000:03:00.0 uuid=GPU-c mig",
		"instance 0000:03:00.0 MIG-x 3g.20gb 1 42 19968",
	} {
		driver.Do(line)
	}
	memory, _, _ := look(gpu.State{})
	for _, line := range lines {
		driver.Do(line)
	}
	_, view, inv := look(memory)
	settings := mps.Defaults()
	return &Node{View: &view, Catalog: catalog, MPS: &settings, Served: map[string]mps.Shared{"GPU-a": {Name: "shm-0123456789"}}}, inv
}

func TestDo(t *testing.T) {
	whole := func(set uint16) topology.Grant { return topology.Grant{GPUs: set, Milli: topology.FullGPU} }
	soft := func(set uint16) topology.Grant {
		return topology.Grant{GPUs: set, Milli: 250, Memory: 10_000, Isolation: topology.Soft}
	}
	instance := topology.Grant{GPUs: 0b100, Milli: 388, Memory: 19968, Isolation: topology.Hard, Instance: 1}
	for _, c := range []struct {
		what  string
		lines []string
		grant topology.Grant
		want  string // names and variables, or a part of why not behind "!"
	}{
		{"one", nil, whole(0b1), "nvidia.com/gpu=GPU-a"},
		{"two", nil, whole(0b11), "nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-b"},
		{"by accounting", nil, topology.Grant{GPUs: 0b1, Milli: 250, Memory: 1000, Isolation: topology.Accounting}, "nvidia.com/gpu=GPU-a"},
		{"softly", nil, soft(0b1), "nvidia.com/gpu=GPU-a CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10000M"},
		{"softly, and nobody serves it", nil, soft(0b10), "!GPU 1: no MPS daemon serves it"},
		{"an instance", nil, instance, "nvidia.com/gpu=MIG-x"},
		{"an instance that is gone", []string{"unmake 0000:03:00.0 MIG-x", "instance 0000:03:00.0 MIG-y 1g.5gb 3 14 4864"}, instance, "!its instance 0 is gone"},
		{"all of one that is divided", nil, whole(0b100), "!it is divided"},
		{"one that there is not", nil, whole(0b1000), "!GPU 3: there are 3"},
		{"a card alone", nil, topology.Grant{}, ""},
		{"one process alone, through the daemon", []string{"compute 0000:01:00.0 Exclusive_Process"}, whole(0b1), "nvidia.com/gpu=GPU-a CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"},
		{"one process alone, and two GPUs", []string{"compute 0000:01:00.0 Exclusive_Process"}, whole(0b11), "!holds it alone"},
		{"unhealthy", []string{"health 0000:01:00.0 pending"}, whole(0b1), "nvidia.com/gpu=GPU-a"},
		{"gone", []string{"remove 0000:01:00.0"}, whole(0b1), "!Vanished"},
		{"another one", []string{"uuid 0000:01:00.0 GPU-z"}, whole(0b1), "!Replaced"},
		{"doubled", []string{"uuid 0000:02:00.0 GPU-a"}, whole(0b1), "!DuplicateUUID"},
		{"half known", []string{"memory 0000:01:00.0 0"}, whole(0b1), "!Unreadable"},
		{"no driver", []string{"unload"}, whole(0b1), "!DriverAway"},
	} {
		n, _ := node(t, c.lines...)
		got, err := Resolve(n, &c.grant, nil)
		why, refused := strings.CutPrefix(c.want, "!")
		if refused != (err != nil) || refused && (!errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v", c.what, err)
		}
		if said := strings.Join(append(got.GPUs, got.Soft.Env...), " "); !refused && said != c.want {
			t.Errorf("%s: %s", c.what, said)
		}
	}
}

func TestCards(t *testing.T) {
	n, _ := node(t)
	got, err := Resolve(n, &topology.Grant{NICs: 0b11}, []cdi.Function{{Address: "0000:3b:00.0", Files: []string{"/dev/infiniband/uverbs0"}}, {Address: "0000:3c:00.0"}})
	if err != nil || fmt.Sprint(got.Cards) != "[hilbert.dev/nic=0000:3b:00.0]" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestUninjectable(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"add 0000:04:00.0 uuid=GPU-d"}, "0000:04:00.0"},
		{[]string{"instance 0000:03:00.0 MIG-y 1g.5gb 3 14 4864"}, "0000:03:00.0"},
		{[]string{"instance 0000:03:00.0 - 1g.5gb 3 14 4864"}, ""},
		{[]string{"lose 0000:01:00.0"}, ""},
	} {
		n, inv := node(t, c.lines...)
		var got []string
		for address := range Uninjectable(inv, n.Catalog) {
			got = append(got, address)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q", c.lines, got)
		}
	}
}
