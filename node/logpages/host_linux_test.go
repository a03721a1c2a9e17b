package logpages

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostile is a directory in which a tenant has put what leads out of it, and one log file.
func hostile(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	outside := filepath.Join(dir, "outside")
	logs := filepath.Join(dir, "logs")
	for _, d := range []string{outside, filepath.Join(logs, "pod", "main")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), make([]byte, mib), 0o600),
		os.WriteFile(filepath.Join(logs, "pod", "main", "0.log"), make([]byte, mib), 0o600),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(logs, "pod", "main", "absolute.log")),
		os.Symlink("../../../outside/secret", filepath.Join(logs, "pod", "main", "relative.log")),
		os.Symlink("0.log", filepath.Join(logs, "pod", "main", "inside.log")),
		os.Symlink(outside, filepath.Join(logs, "pod", "directory")),
		os.Symlink("/proc/self", filepath.Join(logs, "self")),
		unix.Mkfifo(filepath.Join(logs, "pod", "pipe.log"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return logs
}

// Nothing that leads out of the directory is listed; what takes the place of a listed file is not opened, and a pipe holds nobody up.
func TestHostileTree(t *testing.T) {
	logs := hostile(t)
	d := New(Host, []string{logs})
	tree, err := Host(logs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	listed := d.list(0, tree)
	if len(listed) != 1 || listed[0].path != "pod/main/0.log" {
		t.Errorf("listed %+v", listed)
	}
	for _, path := range []string{
		"pod/main/absolute.log", "pod/main/relative.log", "pod/main/inside.log", "pod/directory/secret", "self/cmdline", "pod/pipe.log", "pod/main", "../outside/secret",
		"pod/main/0.log/x", filepath.Join(filepath.Dir(logs), "outside", "secret"),
	} {
		if file, err := tree.Open(path); err == nil {
			t.Errorf("%s was opened: %v", path, file)
		} else if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"pod/directory", "self"} {
		if entries, err := tree.Entries(path, 10); !errors.Is(err, ErrRefused) {
			t.Errorf("%s was listed: %v, %v", path, entries, err)
		}
	}
	if _, err := tree.Open("pod/gone.log"); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
}

// A file on which a tenant's process has a lease is no fault to be told of, and its name is told to nobody.
func TestLeases(t *testing.T) {
	logs := hostile(t)
	tree, err := Host(logs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	file, err := os.OpenFile(filepath.Join(logs, "pod", "main", "0.log"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("the file system grants no lease: ", err)
	}
	signal.Ignore(unix.SIGIO) // by which the kernel asks for the lease
	defer signal.Reset(unix.SIGIO)
	if _, err := tree.Open("pod/main/0.log"); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// On another file system nothing is opened: a mount in a tenant's directory may be its own server's.
func TestMounts(t *testing.T) {
	tree, err := Host("/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	if _, err := tree.Open("proc/version"); !errors.Is(err, ErrRefused) {
		t.Errorf("a file of another mount: %v", err)
	}
}

// Pages of a file are dropped, and its end stays.
func TestPagesAreDropped(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	if err := os.MkdirAll(filepath.Join(logs, "pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(logs, "pod", "0.log")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 16*mib)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	opened := hostFile{int(file.Fd())}
	before, known := opened.Cached(0, 16*mib)
	if !known || before < 15*mib {
		t.Skipf("%d bytes are cached (known: %t): the kernel does not tell, or this file system has no pages to drop", before, known)
	}
	var problems []string
	after := before
	for i := range 100 { // pages that a processor has just read are dropped by a later round
		r := New(Host, []string{logs}).Step(time.Duration(i)*time.Minute, 1<<30, mib)
		problems = append(problems, r.Problems...)
		if after, _ = opened.Cached(0, 15*mib); after == 0 {
			break
		}
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(logs, &stat); err == nil && stat.Type == unix.TMPFS_MAGIC {
		t.Skip("tmpfs has no other place for its pages")
	}
	if left, _ := opened.Cached(15*mib, mib); after > 8*mib || left < mib/2 || len(slices.Compact(problems)) > 0 {
		t.Errorf("%d of %d bytes are cached, and %d of its end; %v", after, before, left, problems)
	}
}
