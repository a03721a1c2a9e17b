package nri

import (
	"reflect"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"hilbert.dev/hilbert/node/cdi"
	plugins "hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// The kubelet and containerd say these with the two cgroup drivers, for pods of the three classes, and with a --cgroup-root.
func TestContainerCgroup(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/kubepods/burstable/pod7d1/4fe", "kubepods/burstable/pod7d1/4fe"},
		{"/kubepods/pod7d1/4fe", "kubepods/pod7d1/4fe"},
		{"/kubelet/kubepods/besteffort/pod7d1/4fe", "kubelet/kubepods/besteffort/pod7d1/4fe"},
		{"kubepods-burstable-pod7d1_2.slice:cri-containerd:4fe", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1_2.slice/cri-containerd-4fe.scope"},
		{"kubepods-pod7d1.slice:cri-containerd:4fe", "kubepods.slice/kubepods-pod7d1.slice/cri-containerd-4fe.scope"},
		{"kubelet-kubepods-besteffort-pod7d1.slice:crio:4fe", "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod7d1.slice/crio-4fe.scope"},
		{":cri-containerd:4fe", "system.slice/cri-containerd-4fe.scope"},
		{"a.slice::4fe", "a.slice/4fe.scope"},
		{"-.slice:x:4fe", "x-4fe.scope"},
		{"", ""},
		{"/", ""},
		{"/kubepods/../../etc", ""},
		{"/kubepods//pod1", ""},
		{"a.slice:b", ""},
		{"a.slice:b:c:d", ""},
		{"a.slice:b:", ""},
		{"a:b:c", ""},
		{"a--b.slice:c:d", ""},
		{"-a.slice:c:d", ""},
		{"a.slice:../x:d", ""},
		{"a/b.slice:c:d", ""},
	} {
		got, err := containerCgroup(c.path)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v; want %q", c.path, got, err, c.want)
		}
	}
}

func TestPodCgroup(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/kubepods/besteffort/pod7d1", "kubepods/besteffort/pod7d1"},
		{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7d1.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7d1.slice"},
		{"kubepods-pod7d1.slice", "kubepods.slice/kubepods-pod7d1.slice"},
		{"", ""},
		{"/", ""},
		{"/..", ""},
	} {
		got, err := podCgroup(c.path)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v; want %q", c.path, got, err, c.want)
		}
	}
}

func cpu(shares uint64, quota int64, period uint64) *api.LinuxResources {
	return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares), Quota: api.Int64(quota), Period: api.UInt64(period)}}
}

// What the kubelet makes of requests: milli × 1024 / 1000, rounded down, from 2 to 262144.
func TestAmounts(t *testing.T) {
	for milli := int64(2); milli <= 255_999; milli += 7 {
		shares := max(milli*1024/1000, 2)
		if got := milliOf(cpu(uint64(shares), 0, 0).GetCpu()); shares > 2 && got != milli {
			t.Fatalf("%dm is read as %dm", milli, got)
		}
	}
	for _, c := range []struct {
		resources []*api.LinuxResources
		want      runtime.Amounts
	}{
		{nil, runtime.Amounts{}},
		{[]*api.LinuxResources{nil, {}}, runtime.Amounts{}},
		{[]*api.LinuxResources{cpu(2, 0, 0)}, runtime.Amounts{}},
		{[]*api.LinuxResources{cpu(8192, 0, 0)}, runtime.Amounts{MilliCPU: 8000}},
		{[]*api.LinuxResources{cpu(256, 0, 0), cpu(1024, 0, 0)}, runtime.Amounts{MilliCPU: 1250}},
		{[]*api.LinuxResources{cpu(262_144, 30_000_000, 100_000)}, runtime.Amounts{MilliCPU: 300_000}},
		{[]*api.LinuxResources{cpu(262_144, -1, 100_000)}, runtime.Amounts{MilliCPU: 256_000}},
		{[]*api.LinuxResources{{Memory: &api.LinuxMemory{Limit: api.Int64(1 << 30)}}}, runtime.Amounts{MemoryLimit: 1 << 30}},
		{[]*api.LinuxResources{{Memory: &api.LinuxMemory{Limit: api.Int64(-1)}}}, runtime.Amounts{}},
	} {
		if got := amountsOf(c.resources...); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.resources, got, c.want)
		}
	}
}

func TestSandbox(t *testing.T) {
	p := &api.PodSandbox{
		Id: "s1", Uid: "u1", Pid: 7, Namespace: "default", Name: "web-0", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/podu1", PodResources: cpu(4096, 0, 0), PodOverhead: cpu(1024, 0, 0)},
	}
	want := runtime.Sandbox{
		ID: "s1", UID: "u1", Namespace: "default", Name: "web-0", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Cgroup: "kubepods/burstable/podu1", Amounts: runtime.Amounts{MilliCPU: 5000},
	}
	if got := sandboxOf(p); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	p.Ips = []string{"10.0.0.7", "fd00::7"}
	if got := sandboxOf(p).Address; got != "" {
		t.Errorf("in the node's network it has the address %s of its own", got)
	}
	p.Linux.Namespaces = []*api.LinuxNamespace{{Type: "pid"}, {Type: "network", Path: "/run/netns/n"}}
	if got := sandboxOf(p).Address; got != "10.0.0.7" {
		t.Errorf("address %q", got)
	}
	if got := sandboxOf(&api.PodSandbox{}); got.Trouble == "" || got.Cgroup != "" || !got.Processless {
		t.Errorf("without a parent: %+v", got)
	}
}

func TestBestEffort(t *testing.T) {
	for _, c := range []struct {
		cgroup  string
		amounts runtime.Amounts
		want    bool
	}{
		{"kubepods/besteffort/podu1", runtime.Amounts{}, true},
		{"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu1.slice", runtime.Amounts{}, true},
		{"kubepods/burstable/podu1", runtime.Amounts{}, false}, // it asks for memory alone, which nobody tells us
		{"kubepods.slice/kubepods-podu1.slice", runtime.Amounts{}, false},
		{"somewhere/else", runtime.Amounts{}, true},
		{"somewhere/else", runtime.Amounts{MilliCPU: 1}, false},
	} {
		if got := bestEffort(c.cgroup, c.amounts); got != c.want {
			t.Errorf("%s %+v: %v", c.cgroup, c.amounts, got)
		}
	}
}

func TestContainer(t *testing.T) {
	c := &api.Container{
		Id: "c1", PodSandboxId: "s1", Name: "main", State: api.ContainerState_CONTAINER_RUNNING,
		Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/podu1/c1", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1", Mems: "0"}}},
	}
	want := runtime.Container{ID: "c1", Sandbox: "s1", Name: "main", Cgroup: "kubepods/podu1/c1", CPUs: topology.CPUs(0, 1), Mems: topology.CPUs(0), Exists: true}
	if got := containerOf(c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	c.State = api.ContainerState_CONTAINER_STOPPED
	if got := containerOf(c); !got.Stopped || got.Exists {
		t.Errorf("stopped: %+v", got)
	}
	if got := containerOf(&api.Container{}); got.Trouble == "" || got.Exists || got.Stopped {
		t.Errorf("with nothing known: %+v", got)
	}
}

func TestAdjustment(t *testing.T) {
	score := 1000
	a := adjustmentOf(runtime.Adjustment{CPUs: topology.CPUs(2, 3), Mems: topology.CPUs(1), OOMScoreAdj: &score})
	cpu := a.GetLinux().GetResources().GetCpu()
	if cpu.GetCpus() != "2-3" || cpu.GetMems() != "1" || a.GetLinux().GetOomScoreAdj().GetValue() != 1000 {
		t.Errorf("%v", a)
	}
	if cpu.GetShares() != nil || cpu.GetQuota() != nil {
		t.Error("it takes what is the kubelet's")
	}
	if a := adjustmentOf(runtime.Adjustment{}); a.GetLinux() != nil || len(a.GetEnv())+len(a.GetMounts())+len(a.GetCDIDevices()) != 0 {
		t.Errorf("nothing to adjust: %v", a)
	}
	if u := updateOf(runtime.Update{Container: "c1", CPUs: topology.CPUs(0)}); u.GetContainerId() != "c1" || u.GetLinux().GetResources().GetCpu().GetCpus() != "0" ||
		u.GetLinux().GetResources().GetCpu().GetMems() != "" {
		t.Errorf("%v", u)
	}
}

// What a container has that devices depend on is read, and what it gets of them is asked of the runtime as the runtime understands it.
// What plugins contribute reaches the container, readable alone where they do not say otherwise.
func TestContribution(t *testing.T) {
	a := adjustmentOf(runtime.Adjustment{Resources: plugins.Contribution{
		Env: []string{"FPGA=a=b"}, Devices: []plugins.Device{{Path: "/dev/fpga0", Type: "c", Major: 240, Minor: 3}},
		Mounts:      []plugins.Mount{{Source: "/opt/fpga", Place: "/fpga"}, {Source: "/opt/work", Place: "/work", Writable: true}},
		Annotations: map[string]string{"example.com/card": "1"},
	}})
	if len(a.Env) != 1 || a.Env[0].Key != "FPGA" || a.Env[0].Value != "a=b" || a.Annotations["example.com/card"] != "1" {
		t.Errorf("variables %v, annotations %v", a.Env, a.Annotations)
	}
	if d := a.GetLinux().GetDevices(); len(d) != 1 || d[0].Path != "/dev/fpga0" || d[0].Type != "c" || d[0].Major != 240 || d[0].Minor != 3 || d[0].GetFileMode().GetValue() != 0o666 {
		t.Errorf("devices %v", d)
	}
	if len(a.Mounts) != 2 || !slices.Contains(a.Mounts[0].Options, "ro") || !slices.Contains(a.Mounts[1].Options, "rw") || a.Mounts[0].Source != "/opt/fpga" || a.Mounts[0].Destination != "/fpga" {
		t.Errorf("mounts %v", a.Mounts)
	}
}

func TestDevices(t *testing.T) {
	c := containerOf(&api.Container{
		Env: []string{"A=b=c"}, Mounts: []*api.Mount{{Source: "/x", Destination: "/data"}, {Destination: "/dev/shm"}},
		CDIDevices: []*api.CDIDevice{{Name: "vendor.com/a=b"}}, User: &api.User{Uid: 7, Gid: 8},
	})
	if !slices.Equal(c.Env, []string{"A=b=c"}) || !slices.Equal(c.Mounts, []string{"/data", "/dev/shm"}) || !slices.Equal(c.CDI, []string{"vendor.com/a=b"}) || c.User == nil || *c.User != 7 {
		t.Errorf("%+v", c)
	}
	if c := containerOf(&api.Container{}); c.User != nil {
		t.Errorf("a runtime that says nobody means root? %+v", c)
	}
	for kind, want := range map[string]bool{"pid": false, "user": true} {
		if c := containerOf(&api.Container{Linux: &api.LinuxContainer{Namespaces: []*api.LinuxNamespace{{Type: "mount"}, {Type: kind, Path: "/proc/7/ns/" + kind}}}}); c.UserNamespace != want {
			t.Errorf("with a namespace of kind %s, users of its own: %t", kind, c.UserNamespace)
		}
	}
	a := adjustmentOf(runtime.Adjustment{Devices: cdi.Edits{
		Devices: []string{"nvidia.com/gpu=GPU-a", "hilbert.dev/nic=0000:3b:00.1"}, Env: []string{"LIMIT=0=10M"},
		Mounts: []cdi.Mount{{Source: "/run/shm", Place: "/dev/shm", Options: []string{"bind", "rw"}}}, Without: []string{"/var/run/nvidia-container-devices/all"},
	}})
	if d := a.GetCDIDevices(); len(d) != 2 || d[0].GetName() != "nvidia.com/gpu=GPU-a" || d[1].GetName() != "hilbert.dev/nic=0000:3b:00.1" {
		t.Errorf("devices: %v", d)
	}
	if e := a.GetEnv(); len(e) != 1 || e[0].GetKey() != "LIMIT" || e[0].GetValue() != "0=10M" {
		t.Errorf("environment: %v", e)
	}
	m := a.GetMounts()
	if len(m) != 2 {
		t.Fatalf("mounts: %v", m)
	}
	if place, removed := m[0].IsMarkedForRemoval(); !removed || place != "/var/run/nvidia-container-devices/all" {
		t.Errorf("taken away: %v", m[0])
	}
	if m[1].GetSource() != "/run/shm" || m[1].GetDestination() != "/dev/shm" || m[1].GetType() != "bind" || !slices.Equal(m[1].GetOptions(), []string{"bind", "rw"}) {
		t.Errorf("mounted: %v", m[1])
	}
}

func FuzzCgroup(f *testing.F) {
	for _, s := range []string{"/kubepods/pod1/c", "a-b.slice:p:n", ":::", "..", "-.slice:a:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (string, error){containerCgroup, podCgroup} {
			dir, err := parse(text)
			if err != nil {
				continue
			}
			if again, err := directory(dir); dir != "" && (err != nil || again != dir) {
				t.Errorf("%q leads to %q: %v", text, dir, err)
			}
		}
	})
}
