package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/enforce"
)

// kernel is a hierarchy in memory that behaves as the kernel does: an occupied cpuset cannot be emptied, and a line of io.max is one device's.
type kernel struct {
	files    map[string]string
	occupied map[string]bool // cgroups with processes, in them or below
	writes   []string
}

func (k *kernel) Read(name string) (string, error) {
	if value, ok := k.files[name]; ok {
		return value, nil
	}
	return "", syscall.ENOENT
}

func (k *kernel) Write(name, value string) error {
	dir, file := path.Dir(name), path.Base(name)
	if _, ok := k.files[name]; !ok {
		return syscall.ENOENT
	}
	k.writes = append(k.writes, name+" = "+strings.TrimSpace(value))
	value = strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(file, "cpuset.") && value == "" && k.occupied[dir]:
		return syscall.ENOSPC
	case file == "cpu.idle" && value == "0":
		k.files[dir+"/cpu.weight"] = "100"
	case file == "io.max" || file == "io.latency" || file == costQuality:
		device, settings, _ := strings.Cut(value, " ")
		var left []string
		for line := range strings.Lines(k.files[name]) {
			if other, _, _ := strings.Cut(line, " "); other != device {
				left = append(left, line)
			}
		}
		if file == costQuality {
			left = append(left, device+" "+settings+"\n")
		} else if strings.Count(settings, "=max") < 4 && settings != "target=0" {
			left = append(left, device+" "+settings+"\n")
		}
		value = strings.TrimSpace(strings.Join(left, ""))
	}
	k.files[name] = value
	return nil
}

// tree has the directories of the files.
func (k *kernel) tree() fs.FS {
	out := fstest.MapFS{}
	for name := range k.files {
		out[name] = &fstest.MapFile{}
	}
	return out
}

// idle are the files of a cgroup that nobody has touched.
var idle = map[string]string{
	"cpuset.cpus": "", "cpuset.mems": "", "cpu.idle": "0", "cpu.weight": "1", "memory.high": "max", "memory.max": "max",
	"memory.low": "0", "memory.swap.max": "max", "memory.zswap.max": "max", "io.weight": "default 100", "io.max": "", "io.latency": "", "cpu.max.burst": "0", "cpu.max": "max 100000",
}

// pods are the cgroups of two pods under either cgroup driver: of classes, of pods, of containers.
var pods = [][]string{
	{
		"kubepods", "kubepods/besteffort", "kubepods/besteffort/pod0e1f2a3b-0000-4000-8000-000000000001", "kubepods/besteffort/pod0e1f2a3b-0000-4000-8000-000000000001/c1",
		"kubepods/burstable", "kubepods/burstable/pod0e1f2a3b-0000-4000-8000-000000000002", "kubepods/burstable/pod0e1f2a3b-0000-4000-8000-000000000002/c2",
	},
	{
		"kubepods.slice", "kubepods.slice/kubepods-besteffort.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0e1f2a3b_0000_4000_8000_000000000001.slice",
		"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0e1f2a3b_0000_4000_8000_000000000001.slice/cri-containerd-c1.scope",
		"kubepods.slice/kubepods-pod0e1f2a3b_0000_4000_8000_000000000003.slice", "kubepods.slice/kubepods-pod0e1f2a3b_0000_4000_8000_000000000003.slice/cri-containerd-c3.scope",
	},
}

func newKernel(dirs []string) *kernel {
	k := &kernel{files: map[string]string{costQuality: ""}, occupied: map[string]bool{}}
	for _, dir := range dirs {
		for file, value := range idle {
			k.files[dir+"/"+file] = value
		}
		if strings.Contains(dir, "besteffort") && levelOf(dir) == container {
			k.files[dir+"/memory.swap.max"] = "0" // the kubelet's
		}
		for above := dir; levelOf(dir) == container && above != "."; above = path.Dir(above) {
			k.occupied[above] = true
		}
		if !strings.Contains(dir, "besteffort") {
			k.files[dir+"/memory.max"], k.files[dir+"/cpu.weight"] = "1073741824", "79" // the pod's own limit and request
		}
	}
	k.files[dirs[0]+"/cpuset.cpus"] = "0-7" // the kubelet's
	k.files[dirs[0]+"/cpuset.cpus.effective"], k.files[dirs[0]+"/cpuset.mems.effective"] = "0-7", "0-1"
	return k
}

// set is what an agent may have set of a part, by file; a value for pods of class BestEffort only is in bestEffort.
var set = map[Part]map[string][]string{
	CPU:    {"cpuset.cpus": {"0-1", "3", "0-7"}, "cpuset.mems": {"0", "0-1"}, "cpu.max.burst": {"20000"}},
	Memory: {"memory.low": {"1048576", "max"}},
	IO:     {"io.weight": {"default 800", "default 1"}, "io.latency": {"8:0 target=5000", "8:0 target=5000\n8:16 target=1"}},
}

// agentSets does to a hierarchy what an agent may do.
func agentSets(t *rapid.T, k *kernel, dirs []string) {
	for _, dir := range dirs {
		values := map[string][]string{}
		for _, part := range Parts() {
			maps.Copy(values, set[part])
		}
		at := levelOf(dir)
		if dir == dirs[0] {
			delete(values, "cpuset.cpus")
		}
		if at == group {
			delete(values, "cpuset.mems")
		}
		if at == container && strings.Contains(dir, "besteffort") {
			values["memory.swap.max"] = []string{"104857600"}
		}
		if at == pod {
			values["memory.high"], values["cpu.max"] = []string{"104857600"}, []string{"50000 99991"}
			values["io.max"] = []string{"8:0 rbps=1048576 wbps=max riops=max wiops=max", "8:0 rbps=1 wbps=1 riops=1 wiops=1\n8:16 rbps=max wbps=2 riops=max wiops=max"}
			if strings.Contains(dir, "besteffort") {
				values["memory.max"], values["cpu.idle"] = []string{"209715200"}, []string{"1"}
				values["memory.swap.max"], values["memory.zswap.max"] = []string{"0", "104857600"}, []string{"4096"}
			}
		}
		for _, file := range slices.Sorted(maps.Keys(values)) {
			if rapid.Bool().Draw(t, "set "+dir+"/"+file) {
				k.files[dir+"/"+file] = rapid.SampledFrom(values[file]).Draw(t, "value")
			}
		}
	}
	k.files[costQuality] = rapid.SampledFrom([]string{"", "8:0 enable=1 ctrl=user", "8:0 enable=0\n8:16 enable=1 ctrl=auto"}).Draw(t, "io.cost")
}

// effective is what a hierarchy means: a container's set of all CPUs is as none.
func (k *kernel) effective() map[string]string {
	out := maps.Clone(k.files)
	for name, value := range out {
		switch {
		case strings.HasSuffix(name, "/cpuset.cpus") && value == "0-7", strings.HasSuffix(name, "/cpuset.mems") && value == "0-1":
			out[name] = ""
		case name == costQuality:
			out[name] = fmt.Sprint(strings.Contains(value, "enable=1"))
		}
	}
	return out
}

// TestResetLeavesNothing: whatever an agent has set, after Reset all files mean what they meant before it came, and a second Reset writes nothing.
func TestResetLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dirs := rapid.SampledFrom(pods).Draw(t, "cgroups")
		before := newKernel(dirs).effective()
		k := newKernel(dirs)
		agentSets(t, k, dirs)
		if _, err := Reset(k, k.tree(), dirs[0], Parts()); err != nil {
			t.Fatal(err)
		}
		after := k.effective()
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if after[name] != before[name] {
				t.Errorf("%s is %q, and was %q", name, after[name], before[name])
			}
		}
		k.writes = nil
		if written, err := Reset(k, k.tree(), dirs[0], Parts()); err != nil || written != 0 {
			t.Errorf("the second time: %v (%v)", k.writes, err)
		}
	})
}

// TestResetPart: a part's files alone are touched.
func TestResetPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dirs := rapid.SampledFrom(pods).Draw(t, "cgroups")
		part := rapid.SampledFrom(Parts()).Draw(t, "part")
		k := newKernel(dirs)
		agentSets(t, k, dirs)
		before := maps.Clone(k.files)
		if _, err := Reset(k, k.tree(), dirs[0], []Part{part}); err != nil {
			t.Fatal(err)
		}
		for name, value := range k.files {
			mine := slices.Contains(files[part], path.Base(name)) || part == CPU && path.Base(name) == "cpu.weight"
			if !mine && value != before[name] {
				t.Errorf("%s belongs to another part, and was changed from %q to %q", name, before[name], value)
			}
		}
	})
}

// TestResetLeavesTheKubelets: limits and weights of pods that are not BestEffort are the kubelet's.
func TestResetLeavesTheKubelets(t *testing.T) {
	k := newKernel(pods[0])
	dir := pods[0][5]
	k.files[dir+"/memory.max"], k.files[dir+"/cpu.weight"] = "4096", "79"
	inner := slices.IndexFunc(pods[0], func(dir string) bool { return strings.Contains(dir, "besteffort") && levelOf(dir) == container })
	k.files[pods[0][inner]+"/nested/memory.swap.max"] = "4096" // a container's own doing
	if _, err := Reset(k, k.tree(), "kubepods", Parts()); err != nil || len(k.writes) > 0 {
		t.Errorf("written: %v (%v)", k.writes, err)
	}
}

// refusing refuses writes to one file.
type refusing struct {
	*kernel
	file string
	why  error
}

func (r refusing) Write(name, value string) error {
	if path.Base(name) == r.file {
		return r.why
	}
	return r.kernel.Write(name, value)
}

// TestRefused: what the kernel refuses is said, and the rest is done; what has gone is no error, nor what is the cleanup's own.
func TestRefused(t *testing.T) {
	for why, told := range map[error]bool{syscall.EIO: true, syscall.ENOENT: false, enforce.ErrOwnContainer: false} {
		k := newKernel(pods[0])
		dir := pods[0][2]
		k.files[dir+"/memory.high"], k.files[dir+"/memory.low"] = "4096", "4096"
		_, err := Reset(refusing{k, "memory.high", why}, k.tree(), "kubepods", Parts())
		if errors.Is(err, fs.ErrNotExist) || (err != nil) != told || (err != nil && !strings.Contains(err.Error(), dir+"/memory.high")) {
			t.Errorf("%v: the error is %v", why, err)
		}
		if low := k.files[dir+"/memory.low"]; low != "0" {
			t.Errorf("%v: memory.low is %s", why, low)
		}
	}
}

// TestNoPods: a node on which no pod has ever run has nothing to reset.
func TestNoPods(t *testing.T) {
	k := &kernel{files: map[string]string{}}
	if written, err := Reset(k, k.tree(), "kubepods", Parts()); written != 0 || err != nil {
		t.Error(written, err)
	}
}

type memoryStore struct{ data []byte }

func (m *memoryStore) Load() ([]byte, error)  { return m.data, nil }
func (m *memoryStore) Save(data []byte) error { m.data = data; return nil }

func TestRecord(t *testing.T) {
	s := &memoryStore{}
	if got, err := Load(s); got != nil || err != nil {
		t.Errorf("no record: %v, %v", got, err)
	}
	want := []Part{Memory, IO}
	if err := Save(s, want); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(s); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, broken := range []string{``, `{`, `{"version":2,"parts":[]}`, `{"version":1,"parts":["disk"]}`, `{"version":1,"part":[]}`} {
		s.data = []byte(broken)
		if got, err := Load(s); err == nil {
			t.Errorf("%q: %v", broken, got)
		}
	}
}
