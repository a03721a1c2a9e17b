package controlplane

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onFullDisk names, in the environment of the test's own child process, a small file system to fill.
const onFullDisk = "HILBERT_CONTROLPLANE_FULL_DISK"

// TestFullDisk: etcd gives up the process when its disk is full; here that is a failure that is told, and Stop returns. It needs the
// right to mount, and a process of its own: what is left of a broken etcd cannot be stopped.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(onFullDisk); dir != "" {
		fillDisk(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("a second control plane")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=90m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	child := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	child.Env = append(os.Environ(), onFullDisk+"="+dir)
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk") {
		t.Errorf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T, dir string) {
	c := start(t, Options{Dir: filepath.Join(dir, "lab")})
	admin := client(t, c.AdminConfig())
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	for err == nil {
		_, err = ballast.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	end := time.After(patience)
	for {
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "ballast-"}, BinaryData: map[string][]byte{"b": make([]byte, 512<<10)},
		}, metav1.CreateOptions{})
		select {
		case failure := <-c.Failed():
			if !errors.Is(failure, ErrNoSpace) || !strings.Contains(failure.Error(), "the disk under "+dir) {
				t.Errorf("failure: got %v, want ErrNoSpace that names the disk", failure)
			}
			return // Stop, by the cleanup
		case <-end:
			t.Fatalf("the failure was never told; the last write said: %v", err)
		default:
		}
	}
}
