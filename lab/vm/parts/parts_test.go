package parts

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMissing: without Build nothing is fetched, and the error says what to do.
func TestMissing(t *testing.T) {
	cache := t.TempDir()
	_, err := Open(t.Context(), Options{Cache: cache})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "make vm-parts") || !strings.Contains(err.Error(), cache) {
		t.Errorf("got %v, want ErrMissing with what to run and what is not there", err)
	}
}

// TestOnce: a part is made once; one whose making failed leaves nothing, and is made by the next who wants it.
func TestOnce(t *testing.T) {
	var progress bytes.Buffer
	b := &builder{Options: Options{Cache: t.TempDir(), Build: true, Progress: &progress}}
	broken := errors.New("broken")
	if _, err := b.once("part-1", false, func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the failure", err)
	}
	if left, err := os.ReadDir(b.Cache); err != nil || len(left) != 0 {
		t.Errorf("a failure leaves %v, %v", left, err)
	}
	made := 0
	for range 2 {
		dir, err := b.once("part-1", false, func(dir string) error { made++; return nil })
		if err != nil || dir != filepath.Join(b.Cache, "part-1") {
			t.Errorf("got %s, %v", dir, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
	if !strings.Contains(progress.String(), "part-1") || !strings.Contains(progress.String(), " s\n") {
		t.Errorf("progress: got %q, want the part and its seconds", progress.String())
	}
}

// TestPrune: what is in use stays, however old it is; what nobody used for a day goes.
func TestPrune(t *testing.T) {
	b := &builder{Options: Options{Cache: t.TempDir()}}
	for name, age := range map[string]time.Duration{"disk-used": 2 * unusedFor, "disk-old": 2 * unusedFor, "disk-new": 0, "kubelet-v1": 2 * unusedFor} {
		dir := filepath.Join(b.Cache, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	b.prune(filepath.Join(b.Cache, "disk-used"))
	left, err := filepath.Glob(filepath.Join(b.Cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"disk-new", "disk-used", "kubelet-v1"}; !slices.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
}

// TestModuleOrder: each module comes once and after those that it needs; one that the kernel lacks is named with who needs it.
func TestModuleOrder(t *testing.T) {
	fakes := map[string]string{"a": "b,c-d", "b": "c-d", "c_d": "", "lost": "nowhere"}
	o := moduleOrder{paths: map[string]string{}, read: func(path string) ([]byte, error) { return fakeModule(fakes[path]), nil }}
	for name := range fakes {
		o.paths[name] = name
	}
	for _, name := range []string{"b", "a"} {
		if err := o.add(name); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, m := range o.loaded {
		got = append(got, m.name)
	}
	if want := []string{"c_d", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("order: got %v, want %v", got, want)
	}
	if err := o.add("lost"); err == nil || !strings.Contains(err.Error(), "nowhere, which lost needs") {
		t.Errorf("got %v, want the module that is not there and who needs it", err)
	}
}

// fakeModule is an ELF file with nothing but a .modinfo.
func fakeModule(depends string) []byte {
	info := "license=GPL\x00depends=" + depends + "\x00name=x\x00"
	names := "\x00.modinfo\x00.shstrtab\x00"
	const header, section = 64, 64
	out := make([]byte, header, 1024)
	copy(out, "\x7fELF\x02\x01\x01")
	put := func(at, size int, value uint64) {
		for i := range size {
			out[at+i] = byte(value >> (8 * i))
		}
	}
	put(16, 2, 1)  // relocatable
	put(18, 2, 62) // x86-64
	put(20, 4, 1)
	sections := header + len(info) + len(names)
	put(40, 8, uint64(sections))
	put(52, 2, header)
	put(58, 2, section)
	put(60, 2, 3)
	put(62, 2, 2)
	out = append(append(out, info...), names...)
	for _, s := range []struct{ name, kind, offset, size uint64 }{
		{}, {1, 1, header, uint64(len(info))}, {10, 3, uint64(header + len(info)), uint64(len(names))},
	} {
		at := len(out)
		out = append(out, make([]byte, section)...)
		put(at, 4, s.name)
		put(at+4, 4, s.kind)
		put(at+24, 8, s.offset)
		put(at+32, 8, s.size)
	}
	return out
}

// TestCPIO: the archive holds what was put in, each file at a multiple of four, and ends as the kernel expects.
func TestCPIO(t *testing.T) {
	var out bytes.Buffer
	archive := cpio{out: &out}
	archive.add("dir", cpioDir|0o755, nil)
	archive.add("dir/odd", cpioFile|0o644, []byte("12345"))
	archive.close()
	var got []string
	rest := out.Bytes()
	for len(rest) > 0 {
		field := func(i int) int {
			n, err := strconv.ParseInt(string(rest[6+8*i:14+8*i]), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		const header = 110
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(rest[header : header+nameSize-1])
		data := (header + nameSize + 3) &^ 3
		got = append(got, fmt.Sprintf("%s %s %o %q", rest[:6], name, mode, rest[data:data+size]))
		rest = rest[min(len(rest), (data+size+3)&^3):]
	}
	want := []string{`070701 dir 40755 ""`, `070701 dir/odd 100644 "12345"`, `070701 TRAILER!!! 0 ""`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestImages: both images are there under their names, and name the layer by what it holds.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	busy, busybox, path := filepath.Join(dir, "busy"), filepath.Join(dir, "busybox"), filepath.Join(dir, "images.tar")
	for _, file := range []string{busy, busybox} {
		if err := os.WriteFile(file, []byte(file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := images(path, busy, busybox); err != nil {
		t.Fatal(err)
	}
	files := untar(t, path)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range manifest {
		names = append(names, m.RepoTags...)
		var config struct {
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		if err := json.Unmarshal(files[m.Config], &config); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(files[m.Layers[0]])
		if want := "sha256:" + hex.EncodeToString(sum[:]); !slices.Equal(config.RootFS.DiffIDs, []string{want}) {
			t.Errorf("%s: layers %v, want %s", m.RepoTags, config.RootFS.DiffIDs, want)
		}
	}
	if want := []string{PauseImage, BusyImage}; !slices.Equal(names, want) {
		t.Errorf("images: got %v, want %v", names, want)
	}
}

func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for in := tar.NewReader(f); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSystemdDisk: the second profile has what the packages bring, without what nobody reads there, and its own settings; the packages'
// files in the cache stay as they are, though the disk shares them.
func TestSystemdDisk(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	settings, err := rootfs.ReadFile("rootfs/etc/containerd/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	write(from, "lib/systemd/systemd", "binary")
	write(from, "etc/systemd/system.conf", "theirs")
	write(from, "usr/share/doc/systemd/README", "text")
	if err := os.Symlink("systemd", filepath.Join(from, "lib/systemd/link")); err != nil {
		t.Fatal(err)
	}
	write(root, "etc/containerd/config.toml", string(settings))
	if err := errors.Join(addPackages(from, root), addSystemd(root)); err != nil {
		t.Fatal(err)
	}
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if got := read(root, "lib/systemd/link"); got != "binary" {
		t.Errorf("behind the link: %q", got)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/share/doc")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("documentation: %v, want none", err)
	}
	if ours, theirs := read(root, "etc/systemd/system.conf"), read(from, "etc/systemd/system.conf"); theirs != "theirs" || !strings.Contains(ours, "LogTarget=kmsg") {
		t.Errorf("settings: %q, those of the cache %q", ours, theirs)
	}
	if got := read(root, "etc/containerd/config.toml"); !strings.Contains(got, "SystemdCgroup = true") {
		t.Errorf("containerd has settings %q, want systemd's cgroups", got)
	}
	if target, err := os.Readlink(filepath.Join(root, "etc/systemd/system/systemd-journald.service")); err != nil || target != "/dev/null" {
		t.Errorf("a unit that is not wanted: link to %q, %v", target, err)
	}
	write(root, "etc/containerd/config.toml", "")
	if err := addSystemd(root); err == nil {
		t.Error("settings of containerd that name no driver are taken")
	}
}
