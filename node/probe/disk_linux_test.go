package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is measured of a real file is above 0, no more than is allowed is written, and nothing is left.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	const size = 8 << 20
	m, err := measure(t.Context(), dir, size, time.Minute)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("the file system of %s cannot do it: %v", dir, err)
	}
	if err != nil || m.WriteBytes == 0 || m.SequentialWrites == 0 || m.RandomWrites == 0 || m.ReadBytes == 0 || m.SequentialReads == 0 || m.RandomReads == 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := measure(stopped, dir, size, time.Minute); !errors.Is(err, context.Canceled) && (err == nil || !strings.Contains(err.Error(), "too few")) {
		t.Errorf("after it was stopped: %v", err)
	}
	if _, err := measure(t.Context(), dir+"/gone", size, time.Minute); err == nil {
		t.Error("a directory that is not there is measured")
	}
}

// A file is worked through once at most, so that writes are bounded.
func TestTrialIsBounded(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	trial := &fileTrial{fd: int(file.Fd()), size: 64 * smallBlock, each: time.Minute}
	for _, p := range []pattern{{block: smallBlock, depth: 3, write: true}, {block: smallBlock, depth: 3, write: true, random: true}, {block: smallBlock, depth: 3}} {
		if w, err := trial.run(t.Context(), p); err != nil || w.blocks != 64 {
			t.Errorf("%+v: %d blocks, %v, want 64", p, w.blocks, err)
		}
	}
	if info, err := file.Stat(); err != nil || info.Size() != 64*smallBlock {
		t.Errorf("the file has %v (%v)", info, err)
	}
	trial.each = 0
	if w, err := trial.run(t.Context(), pattern{block: smallBlock, depth: 3, write: true}); err != nil || w.blocks != 0 {
		t.Errorf("%d blocks without time, %v", w.blocks, err)
	}
}

// A link leads to the disk that is written to, not to that on which the link lies.
func TestRealDiskFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	link := dir + "/link"
	if err := errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(dir + "/real")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := RealDisk(link, false); err != nil || d.Directory != want {
		t.Errorf("%+v, %v, want %s", d, err, want)
	}
	gone, err := RealDisk(dir+"/gone", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Free(); err == nil {
		t.Error("a directory that is not there has room")
	}
}
