package machine_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/node/machine"
	"hilbert.dev/hilbert/topology"
)

// TestRead replays transcripts: a machine is drawn or loaded, changed, and read.
//
//	draw sockets=N nodes=N cores=N [threads=N] [l3=N] [memory=N] [adjacent] [switches]   (nodes of a socket, cores of a node)
//	load file=NAME      a fixture of testdata/sysfs
//	set                 lines of the fixture format
//	remove              a path on each line, with all below it
//	read [notes] [plain]   the tree, or only the notes; plain: through a file system without links, if that differs
//	devices             what topology.DevicesOf makes of it
func TestRead(t *testing.T) {
	datadriven.Walk(t, "testdata/read", func(t *testing.T, file string) {
		sys := newSysfs()
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "draw":
				sys = drawn(t, d).draw()
			case "load":
				var name string
				d.ScanArgs(t, "file", &name)
				text, err := os.ReadFile(filepath.Join("testdata", "sysfs", name))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				sys = parseSysfs(string(text))
			case "set":
				sys.add(d.Input)
			case "remove":
				for name := range strings.Lines(d.Input) {
					if !sys.remove(strings.TrimSpace(name)) {
						d.Fatalf(t, "%s is not there", name)
					}
				}
			case "read":
				out := text(t, sys, d.HasArg("notes"))
				if !d.HasArg("plain") {
					return out
				}
				without := text(t, plain{sys}, d.HasArg("notes"))
				if without == out {
					return "the same\n"
				}
				return without
			case "devices":
				m, _, err := machine.Read(sys)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return devices(topology.DevicesOf(m))
			default:
				d.Fatalf(t, "unknown command")
			}
			return ""
		})
	})
}

func devices(d *topology.Devices) string {
	var b strings.Builder
	place := func(at ...uint8) {
		for i, what := range []string{"switch", "NUMA node", "socket"} {
			if at[i] != topology.NoPlace {
				fmt.Fprintf(&b, " %s %d", what, at[i])
			}
		}
		b.WriteByte('\n')
	}
	for i, g := range d.GPU {
		fmt.Fprintf(&b, "GPU %d %s %s:", i, g.Address, g.Model)
		place(g.Switch, g.NUMANode, g.Socket)
	}
	for i, n := range d.NIC {
		fmt.Fprintf(&b, "card %d %s %s, %d functions, RDMA %v:", i, n.Address, n.Name, n.Functions, n.RDMA)
		place(n.Switch, n.NUMANode, n.Socket)
	}
	return b.String()
}

func drawn(t *testing.T, d *datadriven.TestData) blueprint {
	p := blueprint{sockets: 1, nodes: 1, cores: 1, threads: 1, memory: 1024}
	for name, to := range map[string]*int{
		"sockets": &p.sockets, "nodes": &p.nodes, "cores": &p.cores, "threads": &p.threads, "l3": &p.l3, "memory": &p.memory,
	} {
		d.MaybeScanArgs(t, name, to)
	}
	p.adjacent, p.switches = d.HasArg("adjacent"), d.HasArg("switches")
	return p
}

// text is what was read; and every machine that is read keeps what a machine promises.
func text(t *testing.T, sys fs.FS, onlyNotes bool) string {
	t.Helper()
	m, notes, err := machine.Read(sys)
	if err != nil {
		if m != nil || notes != nil {
			t.Errorf("a machine with an error")
		}
		return "error: " + err.Error() + "\n"
	}
	if err := sound(m); err != nil {
		t.Errorf("%v in\n%s", err, m)
	}
	var b strings.Builder
	if !onlyNotes {
		b.WriteString(m.String())
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Reason, n.Message)
	}
	return b.String()
}

// sound checks a machine: every CPU in one NUMA node, a core in one L3 group, socket and NUMA node, numbers dense, devices below devices.
func sound(m *topology.Machine) error {
	type place struct{ l3, socket, numa int }
	cores := make(map[int]place)
	var all, seen, sockets, groups topology.CPUSet
	last := -1
	for _, c := range m.CPUs {
		p := place{c.L3, c.Socket, c.NUMA}
		if other, ok := cores[c.Core]; ok && other != p {
			return fmt.Errorf("core %d is at %v and %v", c.Core, other, p)
		}
		if c.ID <= last || c.Core > len(cores) || c.L3 < -1 {
			return fmt.Errorf("CPU %+v comes after CPU %d and %d cores", c, last, len(cores))
		}
		cores[c.Core], last = p, c.ID
		all.Add(c.ID)
		sockets.Add(c.Socket)
		if c.L3 >= 0 {
			groups.Add(c.L3)
		}
	}
	if all.IsEmpty() || sockets != upTo(sockets.Len()) || groups != upTo(groups.Len()) {
		return fmt.Errorf("CPUs %q, sockets %q, L3 groups %q", all, sockets, groups)
	}
	nodes := map[int]bool{-1: true}
	last = -1
	for _, n := range m.NUMA {
		if n.ID <= last || n.Memory < 0 || n.CPUs.IsEmpty() && n.Memory == 0 || n.Distances != nil && len(n.Distances) != len(m.NUMA) {
			return fmt.Errorf("NUMA node %+v", n)
		}
		if !n.CPUs.Intersection(seen).IsEmpty() || !n.CPUs.Minus(all).IsEmpty() {
			return fmt.Errorf("NUMA node %d has CPUs %s, of which others have some, or which are not online", n.ID, n.CPUs)
		}
		seen, last, nodes[n.ID] = seen.Union(n.CPUs), n.ID, true
		for cpu := range n.CPUs.All() {
			if i := indexOf(m, cpu); m.CPUs[i].NUMA != n.ID {
				return fmt.Errorf("CPU %d and NUMA node %d disagree", cpu, n.ID)
			}
		}
	}
	if seen != all {
		return fmt.Errorf("CPUs %s are in no NUMA node", all.Minus(seen))
	}
	return soundDevices(m, nodes)
}

func soundDevices(m *topology.Machine, nodes map[int]bool) error {
	devices := map[string]bool{"": true}
	after := make(map[string]string) // the last child of each
	for _, d := range m.Devices {
		if devices[d.Address] || !devices[d.Parent] || !nodes[d.NUMA] || d.Kind == "" || d.MaxVirtualFunctions < 0 {
			return fmt.Errorf("device %+v", d)
		}
		if d.Address < after[d.Parent] {
			return fmt.Errorf("device %s comes after %s", d.Address, after[d.Parent])
		}
		devices[d.Address], after[d.Parent] = true, d.Address
	}
	return nil
}

func indexOf(m *topology.Machine, cpu int) int {
	for i, c := range m.CPUs {
		if c.ID == cpu {
			return i
		}
	}
	return -1
}

func upTo(n int) (s topology.CPUSet) {
	for i := range n {
		s.Add(i)
	}
	return s
}

// capture makes a fixture of a real machine: go test -run TestHost -args -capture /sys -fixture testdata/sysfs/NAME.
var (
	capture = flag.String("capture", "/sys", "the sysfs that TestHost reads")
	saved   = flag.String("fixture", "", "write what was read of it to this file")
)

// TestHost reads this very host. A fixture of what it looked at must give the same machine.
func TestHost(t *testing.T) {
	if _, err := os.Stat(filepath.Join(*capture, "devices/system/cpu/online")); err != nil {
		t.Skip("no sysfs here")
	}
	seen := &recorder{FS: os.DirFS(*capture), lines: make(map[string]string)}
	_, _, err := machine.Read(seen)
	if err != nil {
		t.Skipf("this host's sysfs is not whole: %v", err) // a sandbox may show only a part
	}
	live, again := text(t, os.DirFS(*capture), false), text(t, parseSysfs(seen.fixture()), false)
	if live != again {
		t.Errorf("live:\n%s\nfrom the fixture:\n%s", live, again)
	}
	t.Log(live)
	if *saved != "" {
		if err := os.WriteFile(*saved, []byte(seen.fixture()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzRead changes what files contain and which there are. Whatever they say, a machine that is read is sound, and can be rendered.
//
// An edit is a line: "3=text" gives the fourth file of a machine another content, "3-" removes it, and what else it may be is a line of the
// fixture format. Numbers wrap around, so that a small input reaches every file.
func FuzzRead(f *testing.F) {
	machines := []string{
		fixture(blueprint{sockets: 2, nodes: 1, cores: 2, threads: 2, l3: 1, memory: 64}.draw()),
		fixture(blueprint{sockets: 1, nodes: 2, cores: 1, threads: 1, memory: 64, switches: true}.draw()),
		"devices/system/cpu/online = 0\n" +
			"devices/system/cpu/cpu0/topology/thread_siblings_list = 0\n" +
			"devices/system/memory/block_size_bytes = 8000000\n" +
			"devices/system/memory/memory0/state = online\n",
	}
	captures, err := filepath.Glob("testdata/sysfs/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range captures {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		machines = append(machines, string(text))
	}
	for i := range machines {
		f.Add(uint8(i), "")
		f.Add(uint8(i), "0=0\n1=-1\n7-\n20=0-3,5\n")
		f.Add(uint8(i), "9=0x0106\ndevices/system/node/online = 0-3\nclass/infiniband/a -> a\n")
	}
	f.Fuzz(func(t *testing.T, base uint8, edits string) {
		sys := parseSysfs(machines[int(base)%len(machines)])
		edit(sys, edits)
		for _, from := range []fs.FS{sys, plain{sys}} {
			text(t, from, false)
		}
	})
}

func edit(sys *sysfs, edits string) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(sys.entries)) {
		if sys.entries[name].Mode != fs.ModeDir {
			names = append(names, name)
		}
	}
	for line := range strings.Lines(edits) {
		digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
		n, err := strconv.ParseUint(line[:digits], 10, 31)
		switch {
		case err != nil:
			sys.add(line)
		case strings.HasPrefix(line[digits:], "="):
			sys.put(names[int(n)%len(names)], line[digits+1:], 0)
		case strings.HasPrefix(line[digits:], "-"):
			sys.remove(names[int(n)%len(names)])
		}
	}
}
