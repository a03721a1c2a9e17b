package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/gpu"
)

const (
	uuidA = "GPU-00000000-0000-0000-0000-00000000000a"
	uuidB = "GPU-00000000-0000-0000-0000-00000000000b"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// driver answers with an inventory, or not.
type driver struct {
	gpus  []gpu.GPU
	links []uint8
	err   error
}

func (d *driver) Inventory(context.Context) (*gpu.Inventory, error) {
	if d.err != nil {
		return nil, d.err
	}
	return &gpu.Inventory{Version: "580.1", GPUs: d.gpus, Links: d.links}, nil
}

// groups is a resctrl file system in memory.
type groups struct {
	files map[string]string
	bends bool // it keeps another mask than is written
	full  bool // no monitoring group is left
}

func (g *groups) Read(name string) (string, error) {
	text, ok := g.files[name]
	if !ok {
		return "", &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (g *groups) Write(name, value string) error {
	if path.Base(name) == "tasks" {
		g.files[name] += value + "\n"
		return nil
	}
	if g.bends {
		return nil
	}
	for line := range strings.Lines(value) {
		resource, _, _ := strings.Cut(line, ":")
		kept := ""
		for old := range strings.Lines(g.files[name]) {
			if !strings.HasPrefix(old, resource+":") {
				kept += old
			}
		}
		g.files[name] = kept + line
	}
	return nil
}

func (g *groups) Mkdir(name string) error {
	if strings.Contains(name, "mon_groups/") {
		if g.full {
			return syscall.ENOSPC
		}
		if _, ok := g.files[name+"/tasks"]; !ok {
			g.files[name+"/tasks"], g.files[name+"/mon_data/mon_L3_00/mbm_total_bytes"] = "", "7000\n"
		}
		return nil
	}
	g.files[name+"/schemata"], g.files[name+"/mon_data/mon_L3_00/llc_occupancy"] = g.files["schemata"], g.files["counter"]
	g.files[name+"/tasks"], g.files[name+"/mon_data/mon_L3_00/mbm_total_bytes"] = "", "0\n"
	return nil
}

func (g *groups) Remove(name string) error {
	maps.DeleteFunc(g.files, func(file, _ string) bool { return strings.HasPrefix(file, name+"/") })
	return nil
}

func (g *groups) List(name string) (list []string, _ error) {
	if control, ok := strings.CutSuffix(name, "/mon_groups"); ok && g.files[control+"/schemata"] == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	for file := range g.files {
		if rest, ok := strings.CutPrefix(file, strings.TrimPrefix(name+"/", "./")); ok {
			list = append(list, strings.Split(rest, "/")[0])
		}
	}
	if len(list) == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// world is a machine that has everything, and what it is made of.
type world struct {
	*Machine
	root   fstest.MapFS
	driver *driver
	groups *groups
	cdi    string
	// measured is how often a disk was written to.
	measured int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{root: fstest.MapFS{}, cdi: t.TempDir()}
	for name, text := range map[string]string{
		"proc/pressure/cpu": "some avg10=0.00", "proc/pressure/memory": "some avg10=0.00", "proc/pressure/io": "some avg10=0.00",
		"proc/driver/nvidia/version": "580", "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids", "dev/nvidia0": "", "dev/nvidia1": "",
		"dev/infiniband/uverbs0": "", "dev/infiniband/rdma_cm": "",
		"etc/nvidia-container-runtime/config.toml": "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
		"sys/devices/system/cpu/online":            "0-1", "sys/devices/system/node/online": "0", "sys/devices/system/node/node0/cpulist": "0-1",
		"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1000000 kB\n", "sys/devices/system/node/node0/distance": "10",
	} {
		w.root[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	for _, uuid := range []string{uuidA, uuidB} {
		w.root["run/hilbert/mps/"+uuid+"/state"] = &fstest.MapFile{Data: []byte("ready\nmemory shm-0123456789 fresh\n"), ModTime: noon}
	}
	for cpu := range 2 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		for name, text := range map[string]string{
			"topology/core_id": fmt.Sprint(cpu), "topology/physical_package_id": "0", "topology/thread_siblings_list": fmt.Sprint(cpu),
			"cache/index3/level": "3", "cache/index3/type": "Unified", "cache/index3/id": "0", "cache/index3/shared_cpu_list": "0-1", "cache/index3/size": "1024K",
		} {
			w.root[dir+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	// The card, as the tree of devices has it, and by its link from the bus.
	for name, text := range map[string]string{
		"class": "0x020000", "vendor": "0x15b3", "device": "0x1017", "numa_node": "0", "infiniband/mlx5_0/node_type": "1", "infiniband_verbs/uverbs0/dev": "231:192", "net/eth0/speed": "1000",
	} {
		w.root["sys/devices/pci0000:3a/0000:3b:00.0/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	w.root["sys/bus/pci/devices/0000:3b:00.0"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("../../../devices/pci0000:3a/0000:3b:00.0")}
	one := gpu.GPU{Model: "NVIDIA H100 80GB HBM3", Architecture: "Hopper", Memory: 81079, MIG: gpu.MIGOff, Compute: gpu.ComputeDefault}
	a, b := one, one
	a.Address, a.UUID, a.Node = "0000:04:00.0", uuidA, "/dev/nvidia0"
	b.Address, b.UUID, b.Node = "0000:05:00.0", uuidB, "/dev/nvidia1"
	w.driver = &driver{gpus: []gpu.GPU{a, b}, links: []uint8{0, 118, 118, 0}}
	w.groups = &groups{files: map[string]string{
		"schemata": "MB:0=100\nL3:0=fffff\n", "info/L3/cbm_mask": "fffff\n", "info/L3/min_cbm_bits": "1\n", "info/L3/num_closids": "16\n",
		"info/MB/min_bandwidth": "10\n", "info/MB/bandwidth_gran": "10\n", "info/MB/num_closids": "8\n", "info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\n", "info/L3_MON/num_rmids": "64\n", "counter": "4096\n",
		"mon_data/mon_L3_00/mbm_total_bytes": "0\n",
	}}
	w.specify(t, "nvidia0", uuidA, "nvidia1", uuidB)
	w.Machine = &Machine{
		Now: noon, Root: w.root, CDI: []string{w.cdi}, Toolkit: "/etc/nvidia-container-runtime/config.toml", Driver: w.driver, RDT: w.groups, Write: true,
		Faults:       func() ([]gpu.Xid, error) { return nil, nil },
		Instructions: func() (uint64, uint64, error) { return 300, 100, nil },
		RunQueues:    func() error { return nil },
		Threads:      func() ([]int, error) { return []int{5, 6}, nil },
		LoadMemory:   w.load(6, 1, 1),
	}
	for name, text := range map[string]string{"sda/dev": "8:0", "sda/device/model": "x", "sda/stat": "5 0 40 1 7 0 56 2 0 0 3", "sdb/dev": "8:16", "sdb/device/model": "x"} {
		w.root["sys/block/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	for disk := range 2 { // a mirror
		w.root[fmt.Sprintf("sys/block/md0/slaves/sd%c/x", 'a'+disk)] = &fstest.MapFile{}
	}
	w.root["sys/block/md0/dev"] = &fstest.MapFile{Data: []byte("9:0\n")}
	w.Disk = &DiskTrial{
		Directory: "/data", Mounts: "21 1 8:0 / / rw - ext4 /dev/sda rw\n22 21 9:0 / /mirror rw - ext4 /dev/md0 rw\n",
		Free: func() (uint64, error) { return 1 << 40, nil }, Wait: func(time.Duration) {},
		Measure: func(context.Context) (spec.IOModel, error) {
			w.measured++
			return spec.IOModel{ReadBytes: 6, SequentialReads: 5, RandomReads: 4, WriteBytes: 3, SequentialWrites: 2, RandomWrites: 1}, nil
		},
	}
	return w
}

// count has the counter of the only monitoring group say something.
// load moves so many gigabytes in a second, or less where the group of reclaimed pods has the least of the bandwidth; that part of it is counted for the group.
func (w *world) load(free, least, part float64) func() (float64, time.Duration) {
	return func() (float64, time.Duration) {
		const giga, file = 1e9, "hilbert-reclaimed/mon_data/mon_L3_00/mbm_total_bytes"
		bytes := free * giga
		if strings.Contains(w.groups.files["hilbert-reclaimed/schemata"], "MB:0=10\n") {
			bytes = least * giga
		}
		w.count("5000007000\n")
		if was, err := strconv.Atoi(strings.TrimSpace(w.groups.files[file])); err == nil {
			w.groups.files[file] = fmt.Sprintln(was + int(bytes*part))
		}
		return bytes, time.Second
	}
}

func (w *world) count(text string) {
	for file := range w.groups.files {
		if strings.HasPrefix(file, "mon_groups/") && strings.HasSuffix(file, "/mbm_total_bytes") {
			w.groups.files[file] = text
		}
	}
}

// moves has the memory loaded, and so much counted.
func moves(counted string) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) {
		w.LoadMemory = func() (float64, time.Duration) { w.count(counted); return 6e9, time.Second }
	}
}

// specify writes a specification of CDI with devices by their files and names.
func (w *world) specify(t *testing.T, pairs ...string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "- name: %s\n  containerEdits: {deviceNodes: [{path: /dev/%s}]}\n", pairs[i+1], pairs[i])
	}
	if err := os.WriteFile(w.cdi+"/nvidia.yaml", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// probed are the results by name.
func (w *world) probed() map[string]Result {
	out := map[string]Result{}
	for _, r := range Run(context.Background(), w.Machine, Promises()) {
		out[r.Name] = r
	}
	return out
}

// divide puts the first GPU into MIG mode.
func (w *world) divide(instances ...gpu.Instance) {
	w.driver.gpus[0].MIG, w.driver.gpus[0].Instances = gpu.MIGOn, instances
}

// TestProbe: a machine that has everything passes all but gpu-mig, which no undivided GPU has; and each thing that is wrong or missing shows in its promise and in no other.
func TestProbe(t *testing.T) {
	t.Run("everything", func(t *testing.T) {
		for name, r := range newWorld(t).probed() {
			if want := map[bool]Outcome{false: Pass, true: Absent}[name == "gpu-mig"]; r.Outcome != want || r.Detail == "" {
				t.Errorf("%s: %s, want %s: %s", name, r.Outcome, want, r.Detail)
			}
		}
	})
	without := func(names ...string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			t.Helper()
			for _, name := range names {
				if w.root[name] == nil {
					t.Fatalf("%s is not there", name)
				}
				delete(w.root, name)
			}
		}
	}
	for _, test := range []struct {
		promise string
		want    Outcome
		says    string
		spoil   func(*testing.T, *world)
	}{
		{"pressure", Fail, "io", without("proc/pressure/io")},
		{"cgroups", Fail, "no controller io", func(_ *testing.T, w *world) {
			w.root["sys/fs/cgroup/cgroup.controllers"].Data = []byte("cpuset cpu memory")
		}},
		{"cgroups", Fail, "no cgroup v2", without("sys/fs/cgroup/cgroup.controllers")},
		{"machine", Fail, "not known", without("sys/devices/system/node/node0/distance")},
		{"run-queues", Unknown, "not permitted", func(_ *testing.T, w *world) { w.RunQueues = func() error { return syscall.EPERM } }},
		{"run-queues", Unknown, "not implemented", func(_ *testing.T, w *world) { w.RunQueues = func() error { return syscall.ENOSYS } }},
		{"counters", Absent, "no such", func(_ *testing.T, w *world) { w.Instructions = counts(0, syscall.ENOENT) }},
		{"counters", Unknown, "permission", func(_ *testing.T, w *world) { w.Instructions = counts(0, syscall.EACCES) }},
		{"counters", Fail, "0 instructions", func(_ *testing.T, w *world) { w.Instructions = counts(0, nil) }},
		{"rdt", Absent, "mount it", func(_ *testing.T, w *world) { w.RDT = nil }},
		{"rdt", Absent, "the kernel has no resctrl", func(_ *testing.T, w *world) {
			w.RDT, w.root["proc/filesystems"] = nil, &fstest.MapFile{Data: []byte("nodev\tcgroup2\n\text4\n")}
		}},
		{"rdt", Absent, "mount it", func(_ *testing.T, w *world) {
			w.RDT, w.root["proc/filesystems"] = nil, &fstest.MapFile{Data: []byte("nodev\tcgroup2\nnodev\tresctrl\n")}
		}},
		{"rdt", Absent, "no resctrl", func(_ *testing.T, w *world) { delete(w.groups.files, "schemata") }},
		{"rdt", Unknown, "no group was made", func(_ *testing.T, w *world) { w.Write = false }},
		{"rdt", Unknown, "an agent runs", func(_ *testing.T, w *world) { w.groups.files["hilbert-online/schemata"] = "x" }},
		{"rdt", Fail, "group hilbert", func(_ *testing.T, w *world) { w.groups.bends = true }},
		{"rdt", Fail, "not counted", func(_ *testing.T, w *world) { w.groups.files["counter"] = "Unavailable\n" }},
		{"memory-bandwidth", Absent, "no such file system", func(_ *testing.T, w *world) { w.RDT = nil }},
		{"memory-bandwidth", Absent, "counts none", func(_ *testing.T, w *world) { delete(w.groups.files, "info/L3_MON/mon_features") }},
		{"memory-bandwidth", Absent, "only \"llc_occupancy\"", func(_ *testing.T, w *world) { w.groups.files["info/L3_MON/mon_features"] = "llc_occupancy\n" }},
		{"memory-bandwidth", Unknown, "no group was made", func(_ *testing.T, w *world) { w.Write = false }},
		{"memory-bandwidth", Unknown, "an agent runs", func(_ *testing.T, w *world) { w.groups.files["mon_groups/hilbert-pod-web/tasks"] = "9\n" }},
		{"memory-bandwidth", Unknown, "no group left", func(_ *testing.T, w *world) { w.groups.full = true }},
		{"memory-bandwidth", Unknown, "somebody else's", func(_ *testing.T, w *world) { w.groups.files["mon_groups/telegraf/tasks"] = "5\n" }},
		{"memory-bandwidth", Fail, "denied", func(_ *testing.T, w *world) { w.Threads = func() ([]int, error) { return nil, errors.New("denied") } }},
		{"memory-bandwidth", Fail, "unavailable", moves("Unavailable\n")},
		{"memory-bandwidth", Fail, "0.01 GB/s were counted while this program moved 6.00", moves("10007000\n")},
		{"memory-throttle", Absent, "mount it", func(_ *testing.T, w *world) { w.RDT = nil }},
		{"memory-throttle", Absent, "no resctrl", func(_ *testing.T, w *world) { delete(w.groups.files, "schemata") }},
		{"memory-throttle", Absent, "cannot be limited", func(_ *testing.T, w *world) { w.groups.files["schemata"] = "L3:0=fffff\n" }},
		{"memory-throttle", Absent, "counts none", func(_ *testing.T, w *world) { w.groups.files["info/L3_MON/mon_features"] = "llc_occupancy\n" }},
		{"memory-throttle", Unknown, "no group was made", func(_ *testing.T, w *world) { w.Write = false }},
		{"memory-throttle", Unknown, "an agent runs", func(_ *testing.T, w *world) { w.groups.files["hilbert-online/schemata"] = "x" }},
		{"memory-throttle", Fail, "denied", func(_ *testing.T, w *world) { w.Threads = func() ([]int, error) { return nil, errors.New("denied") } }},
		{"memory-throttle", Fail, "wrote", func(_ *testing.T, w *world) { w.groups.bends = true }},
		{"memory-throttle", Fail, "slows nobody down: this program moved 6.00 GB/s (counted 6.00) with all of the bandwidth, and 5.90 GB/s", func(_ *testing.T, w *world) { w.LoadMemory = w.load(6, 5.9, 1) }},
		{"memory-throttle", Fail, "is not counted: this program moved 6.00 GB/s (counted 0.12)", func(_ *testing.T, w *world) { w.LoadMemory = w.load(6, 1, 0.02) }},
		{"disk-model", Unknown, "no disk was measured", func(_ *testing.T, w *world) { w.Disk = nil }},
		{"disk-model", Unknown, "several disks, sda sdb", func(_ *testing.T, w *world) { w.Disk.Directory = "/mirror/x" }},
		{"disk-model", Unknown, "in use: 90 requests", func(t *testing.T, w *world) { w.busy(t) }},
		{"disk-model", Unknown, "free", func(_ *testing.T, w *world) { w.Disk.Free = func() (uint64, error) { return 1 << 30, nil } }},
		{"disk-model", Unknown, "six numbers", func(_ *testing.T, w *world) {
			w.Disk.Measure = func(context.Context) (spec.IOModel, error) { return spec.IOModel{ReadBytes: 1}, nil }
		}},
		{"disk-model", Unknown, "sda: read-only", func(_ *testing.T, w *world) {
			w.Disk.Measure = func(context.Context) (spec.IOModel, error) { return spec.IOModel{}, errors.New("read-only") }
		}},
		{"disk-model", Unknown, "how busy", without("sys/block/sda/stat")},
		{"rdma", Absent, "no network card", without("sys/devices/pci0000:3a/0000:3b:00.0/infiniband/mlx5_0/node_type")},
		{"rdma", Fail, "no device files", without("sys/devices/pci0000:3a/0000:3b:00.0/infiniband_verbs/uverbs0/dev")},
		{"rdma", Fail, "not there", without("dev/infiniband/uverbs0")},
		{"gpu-inventory", Fail, "no device file", without("dev/nvidia1")},
		{"gpu-inventory", Fail, "would be closed", func(_ *testing.T, w *world) { w.driver.gpus[1].Memory = 0 }},
		{"gpu-inventory", Fail, "multiprocessors", func(_ *testing.T, w *world) { w.driver.gpus[1].Model = "NVIDIA Z1" }},
		{"gpu-faults", Unknown, "denied", func(_ *testing.T, w *world) {
			w.Faults = func() ([]gpu.Xid, error) { return nil, errors.New("denied") }
		}},
		{"gpu-links", Fail, "not understood", func(_ *testing.T, w *world) { w.driver.links = nil }},
		{"gpu-soft", Fail, "last answered", func(_ *testing.T, w *world) { w.root["run/hilbert/mps/"+uuidB+"/state"].ModTime = noon.Add(-time.Hour) }},
		{"gpu-soft", Fail, "FAULT", func(_ *testing.T, w *world) {
			w.root["run/hilbert/mps/"+uuidB+"/state"].Data = []byte("ready\nmemory shm-0123456789 used\nserver 1 FAULT\n")
		}},
		{"gpu-soft", Absent, "does not run here", without("run/hilbert/mps/"+uuidA+"/state", "run/hilbert/mps/"+uuidB+"/state")},
		{"gpu-cdi", Fail, uuidB, func(t *testing.T, w *world) { w.specify(t, "nvidia0", uuidA) }},
		{"gpu-cdi", Fail, uuidB, func(t *testing.T, w *world) { w.specify(t, "nvidia0", uuidA, "nvidia0", uuidB) }},
		{"gpu-toolkit", Fail, "unprivileged", func(_ *testing.T, w *world) { w.root["etc/nvidia-container-runtime/config.toml"].Data = nil }},
		{"gpu-toolkit", Absent, "no toolkit", without("etc/nvidia-container-runtime/config.toml")},
	} {
		t.Run(test.promise+" "+test.says, func(t *testing.T) {
			w := newWorld(t)
			test.spoil(t, w)
			if r := w.onlyOne(t, test.promise); r.Outcome != test.want || !strings.Contains(r.Detail, test.says) {
				t.Errorf("%s: %s (%s), want %s: %s", test.promise, r.Detail, r.Cure, test.want, test.says)
			}
			if left, err := w.groups.List("hilbert-reclaimed"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a group is left: %v, %v", left, err)
			}
			if left := bandwidth.Left(w.groups); len(left) > 0 && test.says != "an agent runs" {
				t.Errorf("groups are left: %v", left)
			}
		})
	}
}

// busy makes the disk one that others use.
func (w *world) busy(t *testing.T) {
	t.Helper()
	w.Disk.Wait = func(time.Duration) { w.root["sys/block/sda/stat"].Data = []byte("55 0 40 1 47 0 56 2 0 0 3\n") }
}

// A disk that others use is not written to, unless that is asked for; what is said is a configuration as it stands in the file.
func TestProbeDisk(t *testing.T) {
	w := newWorld(t)
	const model = "node.lending.io.disks: [{device: sda, model: {readBytes: 6, sequentialReads: 5, randomReads: 4, writeBytes: 3, sequentialWrites: 2, randomWrites: 1}}]"
	if r := w.onlyOne(t, "disk-model"); r.Detail != model || w.measured != 1 {
		t.Errorf("%s, want %s", r.Detail, model)
	}
	w.busy(t)
	if r := w.onlyOne(t, "disk-model"); r.Outcome != Unknown || w.measured != 1 {
		t.Errorf("a disk in use was measured: %s", r.Detail)
	}
	w = newWorld(t)
	w.busy(t)
	w.Disk.InUse = true
	if r := w.onlyOne(t, "disk-model"); r.Outcome != Pass || w.measured != 1 {
		t.Errorf("it was asked for: %s", r.Detail)
	}
}

// onlyOne is the result of one promise. All others must pass.
func (w *world) onlyOne(t *testing.T, promise string) Result {
	t.Helper()
	results := w.probed()
	resctrl := []string{"rdt", "memory-bandwidth", "memory-throttle"} // of one file system
	for name, r := range results {
		if name != promise && (!slices.Contains(resctrl, promise) || !slices.Contains(resctrl, name)) && r.Outcome != Pass && name != "gpu-mig" {
			t.Errorf("%s: %s: %s", name, r.Outcome, r.Detail)
		}
	}
	return results[promise]
}

func counts(n uint64, err error) func() (uint64, uint64, error) {
	return func() (uint64, uint64, error) { return n, n, err }
}

// TestProbeInstances: MIG instances are known as far as the driver names them.
func TestProbeInstances(t *testing.T) {
	whole := gpu.Instance{UUID: "MIG-1", Profile: "3g.40gb", GI: 1, Multiprocessors: 60, Memory: 40000}
	nameless, sizeless := whole, whole
	nameless.UUID, sizeless.Multiprocessors = "", 0
	for want, instances := range map[Outcome][][]gpu.Instance{Pass: {{whole}}, Fail: {{nameless}, {whole, sizeless}, nil}} {
		for _, list := range instances {
			w := newWorld(t)
			w.divide(list...)
			if r := w.probed()["gpu-mig"]; r.Outcome != want {
				t.Errorf("%+v: %s: %s", list, r.Outcome, r.Detail)
			}
		}
	}
}

// TestProbeWithoutGPUs: what is not there is absent, and what does not answer is unknown: neither passes.
func TestProbeWithoutGPUs(t *testing.T) {
	for want, spoil := range map[Outcome][]func(w *world){
		Absent:  {func(w *world) { delete(w.root, "proc/driver/nvidia/version") }, func(w *world) { w.driver.err = gpu.ErrNoDriver }, func(w *world) { w.driver.gpus = nil }},
		Unknown: {func(w *world) { w.driver.err = errors.New("it hangs") }},
	} {
		for _, one := range spoil {
			w := newWorld(t)
			one(w)
			for name, r := range w.probed() {
				if strings.HasPrefix(name, "gpu-") && name != "gpu-toolkit" && r.Outcome != want {
					t.Errorf("%s: %s, want %s: %s", name, r.Outcome, want, r.Detail)
				}
			}
		}
	}
}
