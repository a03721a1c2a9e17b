package machine_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
			default:
				d.Fatalf(t, "unknown command")
			}
			return ""
		})
	})
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

// TestHost reads this very host.
func TestHost(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu/online"); err != nil {
		t.Skip("no sysfs here")
	}
	m, notes, err := machine.Read(os.DirFS("/sys"))
	if err != nil {
		t.Skipf("this host's sysfs is not whole: %v", err) // a sandbox may show only a part
	}
	if err := sound(m); err != nil {
		t.Errorf("%v in\n%s", err, m)
	}
	t.Logf("%s%v", m, notes)
}

// FuzzRead changes the content of files, and which there are. Whatever they say, a machine that is read is sound, and can be rendered.
func FuzzRead(f *testing.F) {
	f.Add(fixture(blueprint{sockets: 2, nodes: 1, cores: 2, threads: 2, l3: 1, memory: 64}.draw()))
	f.Add(fixture(blueprint{sockets: 1, nodes: 2, cores: 1, threads: 1, memory: 64, switches: true}.draw()))
	f.Add("devices/system/cpu/online = 0\n" +
		"devices/system/cpu/cpu0/topology/thread_siblings_list = 0\n" +
		"devices/system/memory/block_size_bytes = 8000000\n" +
		"devices/system/memory/memory0/state = online\n")
	captures, err := filepath.Glob("testdata/sysfs/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range captures {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, content string) {
		sys := parseSysfs(content)
		for _, from := range []fs.FS{sys, plain{sys}} {
			text(t, from, false)
		}
	})
}

// fixture writes a tree in the fixture format.
func fixture(s *sysfs) string {
	var b strings.Builder
	write(&b, s, ".")
	return b.String()
}

func write(b *strings.Builder, s *sysfs, dir string) {
	entries, _ := s.ReadDir(dir)
	for _, entry := range entries {
		name := strings.TrimPrefix(dir+"/"+entry.Name(), "./")
		content := string(s.entries[name].Data)
		switch entry.Type() {
		case fs.ModeDir:
			write(b, s, name)
		case fs.ModeSymlink:
			b.WriteString(name + " -> " + content + "\n")
		default:
			content = strconv.Quote(strings.TrimSuffix(content, "\n"))
			b.WriteString(name + " = " + content[1:len(content)-1] + "\n")
		}
	}
}
