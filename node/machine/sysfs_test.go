package machine_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"
)

// sysfs is a small file system with symbolic links. fstest.MapFS goes over all its files to list one directory, and never comes back from a link
// that leads to itself.
type sysfs struct {
	entries map[string]fstest.MapFile // links have their target as content
	below   map[string][]string       // names in each directory
}

func newSysfs() *sysfs {
	return &sysfs{entries: map[string]fstest.MapFile{".": {Mode: fs.ModeDir}}, below: map[string][]string{}}
}

// parseSysfs reads the fixture format. A line is "path = content" (\n in it stands for a new line), or "path -> target", or "path/" for a directory.
func parseSysfs(text string) *sysfs {
	s := newSysfs()
	s.add(text)
	return s
}

func (s *sysfs) add(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, content, ok := strings.Cut(line, " ="); ok {
			content = strings.TrimPrefix(content, " ")
			s.put(name, strings.ReplaceAll(content, `\n`, "\n")+"\n", 0)
		} else if name, target, ok := strings.Cut(line, " -> "); ok {
			s.put(name, target, fs.ModeSymlink)
		} else if name, ok := strings.CutSuffix(line, "/"); ok {
			s.put(name, "", fs.ModeDir)
		}
	}
}

// put adds or changes an entry. What cannot be one, in a fuzzed text, is left out.
func (s *sysfs) put(name, content string, mode fs.FileMode) {
	if !fs.ValidPath(name) || name == "." {
		return
	}
	if old, ok := s.entries[name]; ok {
		if old.Mode == mode {
			s.entries[name] = fstest.MapFile{Data: []byte(content), Mode: mode}
		}
		return
	}
	dir := path.Dir(name)
	s.put(dir, "", fs.ModeDir)
	if s.entries[dir].Mode != fs.ModeDir {
		return
	}
	s.entries[name] = fstest.MapFile{Data: []byte(content), Mode: mode}
	s.below[dir] = append(s.below[dir], path.Base(name))
}

// remove takes an entry away with all that is below it.
func (s *sysfs) remove(name string) bool {
	if _, ok := s.entries[name]; !ok {
		return false
	}
	for _, child := range slices.Clone(s.below[name]) {
		s.remove(path.Join(name, child))
	}
	delete(s.entries, name)
	delete(s.below, name)
	dir := path.Dir(name)
	s.below[dir] = slices.DeleteFunc(s.below[dir], func(n string) bool { return n == path.Base(name) })
	return true
}

// resolve follows the links on a path.
func (s *sysfs) resolve(op, name string) (string, fstest.MapFile, error) {
	for range 20 {
		link := ""
		for i := range len(name) + 1 {
			if i == len(name) || name[i] == '/' {
				if s.entries[name[:i]].Mode == fs.ModeSymlink {
					link = name[:i]
					break
				}
			}
		}
		if link == "" {
			e, ok := s.entries[name]
			if !ok {
				return "", e, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
			}
			return name, e, nil
		}
		name = path.Join(path.Dir(link), string(s.entries[link].Data), name[len(link):])
	}
	return "", fstest.MapFile{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
}

func (s *sysfs) Open(name string) (fs.File, error) {
	real, e, err := s.resolve("open", name)
	if err != nil {
		return nil, err
	}
	return fstest.MapFS{real: &e}.Open(real)
}

func (s *sysfs) ReadFile(name string) ([]byte, error) {
	_, e, err := s.resolve("open", name)
	if err == nil && e.Mode != 0 {
		err = &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	return e.Data, err
}

func (s *sysfs) ReadDir(name string) ([]fs.DirEntry, error) {
	real, e, err := s.resolve("open", name)
	if err != nil || e.Mode != fs.ModeDir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	var out []fs.DirEntry
	for _, child := range slices.Sorted(slices.Values(s.below[real])) {
		out = append(out, dirEntry{child, s.entries[path.Join(real, child)].Mode})
	}
	return out, nil
}

func (s *sysfs) Lstat(string) (fs.FileInfo, error) { return nil, fs.ErrInvalid }

func (s *sysfs) ReadLink(name string) (string, error) {
	dir, _, err := s.resolve("readlink", path.Dir(name))
	if err != nil {
		return "", err
	}
	e := s.entries[path.Join(dir, path.Base(name))]
	if e.Mode != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return string(e.Data), nil
}

type dirEntry struct {
	name string
	mode fs.FileMode
}

func (d dirEntry) Name() string               { return d.name }
func (d dirEntry) IsDir() bool                { return d.mode.IsDir() }
func (d dirEntry) Type() fs.FileMode          { return d.mode }
func (d dirEntry) Info() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

// plain hides the links: what a file system without them shows, which copies what links lead to.
type plain struct{ s *sysfs }

func (p plain) Open(name string) (fs.File, error)          { return p.s.Open(name) }
func (p plain) ReadFile(name string) ([]byte, error)       { return p.s.ReadFile(name) }
func (p plain) ReadDir(name string) ([]fs.DirEntry, error) { return p.s.ReadDir(name) }

// fixture writes a tree in the fixture format.
func fixture(s *sysfs) string {
	lines := make(map[string]string)
	for name, e := range s.entries {
		lines[name] = line(name, string(e.Data), e.Mode)
	}
	return joined(lines)
}

func line(name, content string, mode fs.FileMode) string {
	if mode == fs.ModeDir {
		return name + "/"
	}
	if mode == fs.ModeSymlink {
		return name + " -> " + content
	}
	return strings.TrimSpace(name + " = " + strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\n", `\n`))
}

// joined leaves out the directories that what is in them tells of.
func joined(lines map[string]string) string {
	told := map[string]bool{".": true}
	for name := range lines {
		for dir := path.Dir(name); !told[dir]; dir = path.Dir(dir) {
			told[dir] = true
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if !told[name] {
			b.WriteString(lines[name] + "\n")
		}
	}
	return b.String()
}

// recorder notes all that is looked at, for a fixture.
type recorder struct {
	fs.FS
	lines map[string]string
}

func (r *recorder) fixture() string { return joined(r.lines) }

func (r *recorder) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(r.FS, name)
	if err == nil {
		kept := string(content)
		if path.Base(name) == "meminfo" { // the rest is of the moment
			for text := range strings.Lines(kept) {
				if strings.Contains(text, " MemTotal:") {
					kept = text
				}
			}
		}
		r.lines[name] = line(name, kept, 0)
	}
	return content, err
}

func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, name)
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(name, "class/") {
			below := path.Join(name, entry.Name())
			r.lines[below] = line(below, "", fs.ModeDir)
		}
	}
	return entries, err
}

func (r *recorder) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(r.FS, name)
	if err == nil {
		r.lines[name] = line(name, target, fs.ModeSymlink)
	}
	return target, err
}

func (r *recorder) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(r.FS, name) }

// blueprint is a machine to be drawn.
type blueprint struct {
	sockets, nodes, cores, threads int // nodes of a socket, cores of a node, threads of a core
	l3                             int // cores of an L3 group; 0: one for each socket
	adjacent                       bool
	memory                         int // MiB of a node
	switches                       bool
}

// draw writes the sysfs of a machine as Linux shows it.
func (p blueprint) draw() *sysfs {
	s := newSysfs()
	total := p.sockets * p.nodes * p.cores
	cpu := func(core, thread int) int {
		if p.adjacent {
			return core*p.threads + thread
		}
		return thread*total + core
	}
	list := func(from, count int) string {
		var numbers []string
		for core := from; core < from+count; core++ {
			for thread := range p.threads {
				numbers = append(numbers, fmt.Sprint(cpu(core, thread)))
			}
		}
		return strings.Join(numbers, ",")
	}
	perSocket := p.nodes * p.cores
	l3 := p.l3
	if l3 == 0 {
		l3 = perSocket
	}
	for core := range total {
		for thread := range p.threads {
			s.add(fmt.Sprintf(`devices/system/cpu/cpu%[1]d/topology/core_cpus_list = %[2]s
devices/system/cpu/cpu%[1]d/topology/core_id = %[3]d
devices/system/cpu/cpu%[1]d/topology/physical_package_id = %[4]d
devices/system/cpu/cpu%[1]d/cache/index0/level = 1
devices/system/cpu/cpu%[1]d/cache/index0/shared_cpu_list = %[2]s
devices/system/cpu/cpu%[1]d/cache/index3/level = 3
devices/system/cpu/cpu%[1]d/cache/index3/shared_cpu_list = %[5]s
`, cpu(core, thread), list(core, 1), core%perSocket, core/perSocket, list(core/l3*l3, l3)))
		}
	}
	s.add(fmt.Sprintf("devices/system/cpu/online = 0-%d\n", total*p.threads-1))
	p.drawNodes(s, list)
	if p.switches {
		for n := range p.sockets * p.nodes {
			drawSwitch(s, n)
		}
	}
	return s
}

func (p blueprint) drawNodes(s *sysfs, list func(from, count int) string) {
	count := p.sockets * p.nodes
	s.add(fmt.Sprintf("devices/system/node/online = 0-%d\n", count-1))
	for n := range count {
		var row []string
		for to := range count {
			switch {
			case to == n:
				row = append(row, "10")
			case to/p.nodes == n/p.nodes:
				row = append(row, "12")
			default:
				row = append(row, "32")
			}
		}
		s.add(fmt.Sprintf(`devices/system/node/node%[1]d/cpulist = %[2]s
devices/system/node/node%[1]d/distance = %[3]s
devices/system/node/node%[1]d/meminfo = Node %[1]d MemTotal: %9[4]d kB\nNode %[1]d MemFree: 1 kB
`, n, list(n*p.cores, p.cores), strings.Join(row, " "), p.memory*1024))
	}
}

// drawSwitch puts a GPU and a network card under one switch near a NUMA node. Only the root port says where it is.
func drawSwitch(s *sysfs, n int) {
	bus := 0x10 * n
	at := func(bus, device, function int) string { return fmt.Sprintf("0000:%02x:%02x.%d", bus, device, function) }
	put := func(dir string, class, vendor, device, numa int) {
		s.add(fmt.Sprintf("%[1]s/class = 0x%06[2]x\n%[1]s/vendor = 0x%04[3]x\n%[1]s/device = 0x%04[4]x\n%[1]s/numa_node = %[5]d\n", dir, class, vendor, device, numa))
		s.put("bus/pci/devices/"+path.Base(dir), "../../../"+dir, fs.ModeSymlink)
	}
	root := fmt.Sprintf("devices/pci0000:%02x/%s", bus, at(bus, 1, 1))
	up := root + "/" + at(bus+1, 0, 0)
	left, right := up+"/"+at(bus+2, 0, 0), up+"/"+at(bus+2, 4, 0)
	put(root, 0x060400, 0x1022, 0x14ab, n)
	put(up, 0x060400, 0x1000, 0xc030, -1)
	put(left, 0x060400, 0x1000, 0xc030, -1)
	put(right, 0x060400, 0x1000, 0xc030, -1)
	gpu, nic := left+"/"+at(bus+3, 0, 0), right+"/"+at(bus+4, 0, 0)
	put(gpu, 0x030200, 0x10de, 0x2330, -1)
	put(nic, 0x020000, 0x15b3, 0x1021, -1)
	s.add(fmt.Sprintf("%[1]s/sriov_totalvfs = 16\n%[1]s/net/eth%[2]d/mtu = 1500\n%[1]s/infiniband/mlx5_%[2]d/node_type = 1: CA\n", nic, n))
	s.put(fmt.Sprintf("class/infiniband/mlx5_%d", n), fmt.Sprintf("../../%s/infiniband/mlx5_%d", nic, n), fs.ModeSymlink)
	// An idle port, and an audio function beside the GPU: neither matters.
	put(fmt.Sprintf("devices/pci0000:%02x/%s", bus, at(bus, 2, 1)), 0x060400, 0x1022, 0x14ab, n)
	put(left+"/"+at(bus+3, 0, 1), 0x040300, 0x10de, 0x22ba, -1)
}
