package observe

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakeKernel is a file system in memory that behaves as the kernel's do: an open file of a directory that was removed answers ENODEV, whatever
// has been made in its place, and a directory made anew has another inode.
type fakeKernel struct {
	files      map[string]*fakeFile
	identities map[string]uint64
	made       uint64
	page       int // the most that one read gives; 0: no limit
	open, most int // files open now, at the worst moment
	opened     int // in all
}

type fakeFile struct {
	text     string
	openErr  error
	readErr  error
	replaced func() // called before the file is opened: the world changes under the reader
	dead     error
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{files: map[string]*fakeFile{}, identities: map[string]uint64{}}
}

func (k *fakeKernel) write(name, text string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if k.identities[dir] == 0 {
			k.made++
			k.identities[dir] = k.made
		}
	}
	if f := k.files[name]; f != nil {
		f.text = text
		return
	}
	k.files[name] = &fakeFile{text: text}
}

// remove takes a directory away, or a file.
func (k *fakeKernel) remove(name string) {
	for file, f := range maps.Clone(k.files) {
		if file != name && !strings.HasPrefix(file, name+"/") {
			continue
		}
		f.dead = syscall.ENODEV
		if strings.HasPrefix(file, "proc/") {
			f.dead = syscall.ESRCH
		}
		delete(k.files, file)
	}
	delete(k.identities, name)
}

func (k *fakeKernel) Open(name string) (File, error) {
	f := k.files[name]
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	if f.openErr != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.openErr}
	}
	if change := f.replaced; change != nil {
		f.replaced = nil
		change()
	}
	k.open++
	k.opened++
	k.most = max(k.most, k.open)
	return &fakeHandle{kernel: k, file: f}, nil
}

func (k *fakeKernel) Identity(dir string) (uint64, error) {
	if id := k.identities[dir]; id != 0 {
		return id, nil
	}
	return 0, &fs.PathError{Op: "stat", Path: dir, Err: syscall.ENOENT}
}

type fakeHandle struct {
	kernel *fakeKernel
	file   *fakeFile
	closed bool
}

func (h *fakeHandle) ReadAt(p []byte, offset int64) (int, error) {
	switch {
	case h.closed:
		return 0, syscall.EBADF
	case h.file.dead != nil:
		return 0, h.file.dead
	case h.file.readErr != nil:
		return 0, h.file.readErr
	case int(offset) >= len(h.file.text):
		return 0, nil
	}
	if h.kernel.page > 0 && len(p) > h.kernel.page {
		p = p[:h.kernel.page]
	}
	return copy(p, h.file.text[offset:]), nil
}

func (h *fakeHandle) Close() error {
	if h.closed {
		return errors.New("closed twice")
	}
	h.closed = true
	h.kernel.open--
	return nil
}

// nodeFixtures says where the fixtures of a node belong.
var nodeFixtures = map[string]string{
	"stat": "proc/stat", "schedstat": "proc/schedstat", "meminfo": "proc/meminfo", "loadavg": "proc/loadavg", "vmstat": "proc/vmstat",
	"zoneinfo": "proc/zoneinfo",
	"online":   "sys/devices/system/node/online",
	"meminfo0": "sys/devices/system/node/node0/meminfo", "numastat0": "sys/devices/system/node/node0/numastat",
	"meminfo1": "sys/devices/system/node/node1/meminfo", "numastat1": "sys/devices/system/node/node1/numastat",
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeNode writes the fixtures of a node.
func writeNode(t testing.TB, write func(name, text string)) {
	for name, to := range nodeFixtures {
		write(to, fixture(t, "node/"+name))
	}
	for _, kind := range []string{"cpu", "memory", "io"} {
		write("proc/pressure/"+kind, fixture(t, "node/pressure"))
	}
}

// writePod writes the fixtures of a cgroup, and its threads.
func writePod(t testing.TB, write func(name, text string), dir string) {
	for _, name := range cgroupNames {
		write(path.Join("sys/fs/cgroup", dir, name), fixture(t, "pod/"+name))
	}
	for _, id := range []string{"812", "815", "820"} {
		write("proc/"+id+"/schedstat", "67321 50625 2\n")
	}
}
