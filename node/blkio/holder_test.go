package blkio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// storage is a node with a disk for the system, one for pods' data, and a mirror of two with an encrypted volume on it.
func storage() fstest.MapFS {
	sys := fstest.MapFS{}
	for name, text := range map[string]string{
		"sda/dev": "8:0", "sda/device/model": "x", "sda/sda1/dev": "8:1", "sda/sda1/partition": "1", "sda/sda2/dev": "8:2", "sda/sda2/partition": "2",
		"nvme0n1/dev": "259:0", "nvme0n1/device/model": "x",
		"sdb/dev": "8:16", "sdb/device/model": "x", "sdb/sdb1/dev": "8:17", "sdb/sdb1/partition": "1",
		"sdc/dev": "8:32", "sdc/device/model": "x",
		"md0/dev": "9:0", "md0/slaves/sdb1/x": "", "md0/slaves/sdc/x": "",
		"dm-0/dev": "253:0", "dm-0/slaves/md0/x": "",
		"loop0/dev": "7:0",
		"dm-1/dev":  "253:1", "dm-1/slaves/dm-1/x": "", // no kernel says so
	} {
		sys["block/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return sys
}

const mounts = `21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
30 21 259:0 / /var/lib/containerd rw - xfs /dev/nvme0n1 rw
31 21 253:0 / /var/lib/kubelet rw shared:9 master:2 - xfs /dev/mapper/data rw
32 31 0:44 / /var/lib/kubelet/pods/u/volumes/tmp rw - tmpfs tmpfs rw
33 21 0:45 / /net rw - nfs4 server:/export rw
34 21 0:46 / /data rw - btrfs /dev/sdb1 rw
35 21 7:0 / /loop rw - squashfs /dev/loop0 ro
36 21 8:1 / /with\040space rw - ext4 /dev/sda1 rw
37 21 253:1 / /knot rw - ext4 /dev/mapper/knot rw
odd line
38 21 8:1 / /twice rw - ext4 /dev/sda1 rw
39 21 259:0 / /twice rw - xfs /dev/nvme0n1 rw
`

func TestHolders(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/var/log/pods", "sda"},
		{"/", "sda"},
		{"/var/lib/containerd", "nvme0n1"},
		{"/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "nvme0n1"},
		{"/var/lib/containerdish", "sda"},
		{"/var/lib/kubelet/pods", "sdb sdc"},
		{"/var/lib/kubelet/pods/u/volumes/tmp/f", ""},
		{"/net/a", ""},
		{"/data", "sdb"},
		{"/loop", ""},
		{"/with space/x", "sda"},
		{"/knot", ""},
		{"/twice", "nvme0n1"},
	} {
		got, err := Holders(storage(), mounts, c.path)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrNoDisk) {
			t.Errorf("%s: %v, %v, want %q", c.path, got, err, c.want)
		}
	}
	if _, err := Holders(storage(), "", "/"); err == nil {
		t.Error("a path without a mount is held by something")
	}
	if _, err := Holders(fstest.MapFS{}, mounts, "/"); err == nil {
		t.Error("no /sys/block is no error")
	}
}

// Each disk has one setting at most: that which names it by name, else by path, else "*"; and no setting that could name a disk is left out.
func TestAssign(t *testing.T) {
	disks := []Disk{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	holds := map[string][]string{"/a": {"a"}, "/ab": {"a", "b"}}
	holders := func(name string) ([]string, error) {
		if on := holds[name]; on != nil {
			return on, nil
		}
		return nil, fmt.Errorf("%s: %w", name, ErrNoDisk)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "gone", "/a", "/ab", "/nowhere", everyDisk}), func(s string) string { return s }).Draw(t, "names")
		got, missing := assign(names, disks, holders)
		by := map[string]string{}
		for _, n := range got {
			if by[n.disk] != "" {
				t.Fatalf("%s has two settings: %v", n.disk, got)
			}
			by[n.disk] = names[n.index]
		}
		for _, d := range []string{"a", "b", "c", "gone"} {
			want, rank := "", 3
			for _, name := range names {
				is := name == d || slices.Contains(holds[name], d) || name == everyDisk && d != "gone"
				if is && closeness(name) < rank {
					want, rank = name, closeness(name)
				}
			}
			if (by[d] == "") != (want == "") || want != "" && closeness(by[d]) != rank {
				t.Fatalf("%v: %s has the setting of %q, want %q", names, d, by[d], want)
			}
		}
		if slices.Contains(names, "/nowhere") != (len(missing) == 1) {
			t.Fatalf("%v: missing %q", names, missing)
		}
	})
}

// A node with a disk for reclaimed pods' data: they have no ceiling there, one on each other disk; the disk with pods' logs has a latency for online pods.
func TestControlOnSeveralDisks(t *testing.T) {
	k := newKernel("8:0", "259:0", "8:16", "8:32")
	k.other["k/cgroup.subtree_control"], k.other["k/io.weight"], k.other["k/io.max"], k.other["k/io.latency"] = "io", "default 100", "", ""
	io := spec.Default().Node.Lending.IO
	io.Ceilings = []spec.IOCeiling{{Device: everyDisk, WriteBytesPerSecond: 7}, {Device: "/var/lib/containerd"}}
	io.Disks = []spec.IODisk{
		{Device: "/var/log/pods", Latency: spec.Duration(5e6)},
		{Device: "nvme0n1", Model: spec.IOModel{ReadBytes: 1, SequentialReads: 2, RandomReads: 3, WriteBytes: 4, SequentialWrites: 5, RandomWrites: 6}},
	}
	c := NewControl(k, storage(), func() (string, error) { return mounts, nil }, "k", ParamsOf(&io))
	pods := []enforce.Pod{
		{Cgroup: "k/besteffort/pod1", Level: spec.QoSReclaimed}, {Cgroup: "k/besteffort/pod2", Level: spec.QoSShared}, {Cgroup: "k/burstable/pod3", Level: spec.QoSShared},
	}
	lines := func(file string) string {
		knobs, conditions := c.Tick(pods)
		reasons(t, conditions, ReasonWeightsIdle)
		var out []string
		for _, w := range knobs {
			if w.File == file {
				out = append(out, w.Cgroup+": "+strings.ReplaceAll(w.Value, "\n", ", "))
			}
		}
		return strings.Join(out, "; ")
	}
	if got, want := lines(enforce.IOMax), "k/besteffort/pod1: 259:0, 8:0 wbps=7, 8:16 wbps=7, 8:32 wbps=7"; sortedLines(got) != sortedLines(want) {
		t.Errorf("io.max %s, want %s", got, want)
	}
	k.expect(t, "io.cost.model: 259:0 ctrl=user model=linear rbps=1 rrandiops=3 rseqiops=2 wbps=4 wrandiops=6 wseqiops=5", "io.cost.qos: 259:0 enable=1")
	const bound = "k/besteffort: 8:0 target=0; k/besteffort/pod2: 8:0 target=5000; k/burstable: 8:0 target=5000; k/burstable/pod3: 8:0 target=5000"
	if got := lines(enforce.IOLatency); got != bound {
		t.Errorf("io.latency %s, want %s", got, bound)
	}
	io.Disks = io.Disks[1:]
	c.Set(ParamsOf(&io))
	if got, want := lines(enforce.IOLatency), strings.ReplaceAll(bound, "5000", "0"); got != want {
		t.Errorf("io.latency %s, want it lifted", got)
	}
	k.expect(t)
	delete(k.other, "k/io.latency")
	io.Disks = append(io.Disks, spec.IODisk{Device: everyDisk, Latency: spec.Duration(1e6)})
	c.Set(ParamsOf(&io))
	knobs, conditions := c.Tick(pods)
	reasons(t, conditions, ReasonWeightsIdle, ReasonNoLatency)
	if slices.ContainsFunc(knobs, func(w enforce.DesiredKnob) bool { return w.File == enforce.IOLatency }) {
		t.Error("a kernel without io.latency is told some")
	}
}

// io.cost and io.latency never meet on a disk: it has what names it most closely, which may be nothing. A disk that is not there is told of, whatever names it.
func TestCostOrLatency(t *testing.T) {
	disks := []Disk{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	model := spec.IOModel{ReadBytes: 1, SequentialReads: 2, RandomReads: 3, WriteBytes: 4, SequentialWrites: 5, RandomWrites: 6}
	for _, c := range []struct {
		disks []spec.IODisk
		costs []string
		want  string
	}{
		{[]spec.IODisk{{Device: "*", Model: model}, {Device: "a", Latency: 5000}, {Device: "b"}}, nil, "costs [c], latencies [{a 5}], []"},
		{[]spec.IODisk{{Device: "/a", Latency: 5000}, {Device: "a", Model: model}}, nil, "costs [a], latencies [], []"},
		{[]spec.IODisk{{Device: "*", Latency: 5000}}, []string{"b"}, "costs [b], latencies [{a 5} {c 5}], []"},
		{[]spec.IODisk{{Device: "a", Latency: 5000}}, []string{"*"}, "costs [b c], latencies [{a 5}], []"},
		{[]spec.IODisk{{Device: "gone", Latency: 5000}}, nil, "costs [], latencies [{gone 5}], [{NoDisk there is no disk gone}]"},
	} {
		io := spec.Default().Node.Lending.IO
		io.Disks, io.CostDevices = c.disks, c.costs
		p, conditions := ParamsOf(&io).on(disks, func(string) ([]string, error) { return []string{"a"}, nil })
		names := namesOf(p.Devices, func(d Device) string { return d.Name })
		slices.Sort(names)
		slices.SortFunc(p.Latencies, func(a, b Latency) int { return strings.Compare(a.Name, b.Name) })
		if got := fmt.Sprintf("costs %v, latencies %v, %v", names, p.Latencies, conditions); got != c.want {
			t.Errorf("%+v: %s, want %s", c.disks, got, c.want)
		}
	}
}

// Latencies that an agent before this one has left are taken away, also from cgroups around pods that come later.
func TestControlAdoptsLatencies(t *testing.T) {
	k := newKernel("8:0")
	k.other["k/cgroup.subtree_control"], k.other["k/io.latency"] = "io", ""
	k.other["k/burstable/io.latency"], k.other["k/pod2/io.latency"] = "8:0 target=5000\n", "8:16 target=1\n"
	io := spec.Default().Node.Lending.IO
	c := NewControl(k, storage(), func() (string, error) { return mounts, nil }, "k", ParamsOf(&io))
	latencies := func(pods ...enforce.Pod) string {
		knobs, _ := c.Tick(pods)
		var out []string
		for _, w := range knobs {
			if w.File == enforce.IOLatency {
				out = append(out, w.Cgroup+": "+w.Value)
			}
		}
		return strings.ReplaceAll(strings.Join(out, "; "), "\n", ", ")
	}
	own, later := enforce.Pod{Cgroup: "k/pod2", Level: spec.QoSDedicated}, enforce.Pod{Cgroup: "k/burstable/pod3", Level: spec.QoSShared}
	if got := latencies(); got != "" {
		t.Errorf("io.latency %s without pods", got)
	}
	if got, want := latencies(own), "k/pod2: 8:16 target=0"; got != want {
		t.Errorf("io.latency %s, want %s", got, want)
	}
	const all = "8:0 target=0, 8:16 target=0"
	if got, want := latencies(own, later), "k/burstable: "+all+"; k/burstable/pod3: "+all+"; k/pod2: "+all; got != want {
		t.Errorf("io.latency %s, want %s", got, want)
	}
}

// sortedLines has the disks' lines in order.
func sortedLines(text string) string {
	head, rest, _ := strings.Cut(text, ": ")
	lines := strings.Split(rest, ", ")
	slices.Sort(lines)
	return head + ": " + strings.Join(lines, ", ")
}
