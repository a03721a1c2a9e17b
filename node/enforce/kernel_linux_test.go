package enforce

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tree makes a hierarchy and a /proc of plain files.
func tree(t testing.TB, files map[string]string) (*Files, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"cgroup", "proc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openDirectories(filepath.Join(dir, "cgroup"), filepath.Join(dir, "proc"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, dir
}

func contents(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFiles(t *testing.T) {
	f, dir := tree(t, map[string]string{"cgroup/a/b/cpuset.cpus": "0-3\n", "cgroup/cgroup.controllers": "cpuset cpu memory\n"})
	table := NewTable()
	want(t, table, "a/b/cpuset.cpus=2")
	if o := table.Tick(f); o.Written != 1 {
		t.Errorf("%+v", o)
	}
	if got := contents(t, dir, "cgroup/a/b/cpuset.cpus"); got != "2" {
		t.Errorf("the file has %q", got)
	}
	if got, err := f.Controllers(); err != nil || strings.Join(got, " ") != "cpuset cpu memory" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := f.Read("a/c/cpuset.cpus"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}

// No name leads out of the hierarchy: not by "..", not by a link in the middle or at the end.
func TestFilesStayInside(t *testing.T) {
	f, dir := tree(t, map[string]string{"outside/cpu.idle": "0", "cgroup/in/other": "0"})
	for link, to := range map[string]string{"cgroup/link": "outside", "cgroup/in/cpu.idle": "outside/cpu.idle"} {
		if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"../outside/cpu.idle", "in/../../outside/cpu.idle", "link/cpu.idle", "in/cpu.idle", "/outside/cpu.idle", "", ".", "in//cpu.idle"} {
		if err := f.Write(name, "1"); err == nil {
			t.Errorf("%q is written", name)
		}
		if _, err := f.Read(name); err == nil {
			t.Errorf("%q is read", name)
		}
	}
	if got := contents(t, dir, "outside/cpu.idle"); got != "0" {
		t.Error("something outside was written")
	}
}

// The score is raised for each process that has less, and lowered for none; who ends meanwhile is passed over.
func TestOOMScoreAdj(t *testing.T) {
	f, dir := tree(t, map[string]string{
		"cgroup/p/cgroup.procs": "10\n11\n12\n", "proc/10/oom_score_adj": "0\n", "proc/11/oom_score_adj": "1000\n",
		"cgroup/empty/cgroup.procs": "", "cgroup/foreign/cgroup.procs": "0\n",
	})
	table := NewTable()
	want(t, table, "p/oom_score_adj=900", "empty/oom_score_adj=900", "foreign/oom_score_adj=900", "gone/oom_score_adj=900")
	o := table.Tick(f)
	if o.Written != 1 || o.Right != 1 || o.Gone != 1 || len(o.Refused) != 1 || !errors.Is(o.Refused[0].Err, fs.ErrPermission) {
		t.Errorf("%+v", o)
	}
	if a, b := contents(t, dir, "proc/10/oom_score_adj"), contents(t, dir, "proc/11/oom_score_adj"); a != "900" || b != "1000\n" {
		t.Errorf("scores %q and %q", a, b)
	}
	if o := table.Tick(f); o.Written != 0 {
		t.Errorf("again: %+v", o)
	}
}

// A process knows the container that it runs in, whether it sees those of others (by the numbers of its own namespace, or as 0) or not.
func TestOwn(t *testing.T) {
	f, _ := tree(t, map[string]string{"cgroup/mine/cgroup.procs": fmt.Sprintf("0\n%d\n", os.Getpid()), "cgroup/foreign/cgroup.procs": "0\n1234567\n"})
	for cgroup, want := range map[string]bool{"mine": true, "foreign": false, "gone": false} {
		if got := f.own(cgroup); got != want {
			t.Errorf("%s: %v, want %v", cgroup, got, want)
		}
	}
}

// Of a cgroup with very many processes a part is looked at, and no number is cut in two.
func TestManyProcesses(t *testing.T) {
	var list strings.Builder
	files := map[string]string{}
	for range 1000 {
		list.WriteString("1234567\n")
	}
	files["cgroup/p/cgroup.procs"], files["proc/1234567/oom_score_adj"] = list.String(), "5"
	f, _ := tree(t, files)
	if got, err := f.Read("p/oom_score_adj"); err != nil || got != "5" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOnlyCgroup2(t *testing.T) {
	if f, err := OpenFiles(t.TempDir(), "/proc"); err == nil || !strings.Contains(err.Error(), "cgroup v2") {
		t.Errorf("%v, %v", f, err)
	}
}

// BenchmarkTick compares 100 pods of one container with plain files: what a tick costs where everything is right.
func BenchmarkTick(b *testing.B) {
	dir := b.TempDir()
	table := NewTable()
	for i := range 100 {
		pod := fmt.Sprintf("kubepods/burstable/pod%d", i)
		for _, cgroup := range []string{pod, pod + "/container"} {
			if err := os.MkdirAll(filepath.Join(dir, cgroup), 0o700); err != nil {
				b.Fatal(err)
			}
			for _, file := range []string{CPUSet, Mems} {
				if err := os.WriteFile(filepath.Join(dir, cgroup, file), []byte("0-1\n"), 0o600); err != nil {
					b.Fatal(err)
				}
				if err := table.Want("a", Knob{cgroup, file}, "0-1"); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	f, err := openDirectories(dir, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	}()
	for b.Loop() {
		if o := table.Tick(f); o.Right != 400 {
			b.Fatalf("%+v", o)
		}
	}
}

// The kernel takes the limits of one device at a time.
func TestFilesLimits(t *testing.T) {
	f, dir := tree(t, map[string]string{"cgroup/a/io.max": ""})
	if err := f.Write("a/io.max", "8:0 rbps=1\n8:16 rbps=2"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir, "cgroup/a/io.max"); got != "8:16 rbps=2" { // a plain file keeps the last write
		t.Errorf("got %q, want the second device's line, written alone", got)
	}
}

// A disk that has vanished does not keep the others from their limits, and is no refusal beside one.
func TestLinesOfGoneDisks(t *testing.T) {
	for _, c := range []struct {
		fails map[string]error
		want  error
	}{
		{map[string]error{"8:0": syscall.ENODEV}, syscall.ENODEV},
		{map[string]error{"8:0": syscall.ENODEV, "8:16": syscall.EINVAL}, syscall.EINVAL},
		{map[string]error{"8:16": syscall.EINVAL, "8:32": syscall.ENODEV}, syscall.EINVAL},
		{nil, nil},
	} {
		var written []string
		err := eachLine("8:0 rbps=1\n8:16 rbps=2\n8:32 rbps=3", func(line string) error {
			written = append(written, line)
			return c.fails[deviceOf(line)]
		})
		if !errors.Is(err, c.want) || len(written) != 3 {
			t.Errorf("%v: %v, written %q", c.fails, err, written)
		}
	}
}

// BenchmarkRead is what one comparison of a container's knob costs.
func BenchmarkRead(b *testing.B) {
	const name = "kubepods/burstable/pod0/container0/cpuset.cpus"
	f, _ := tree(b, map[string]string{"cgroup/" + name: "0-7\n"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Read(name); err != nil {
			b.Fatal(err)
		}
	}
}
