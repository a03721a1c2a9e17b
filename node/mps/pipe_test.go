package mps

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hilbert.dev/hilbert/node/cdi"
)

// insideVariable names the directory in which TestReadOnlyPipe goes on, in a mount namespace of its own.
const insideVariable = "MPS_TEST_INSIDE"

// TestReadOnlyPipe: through the mount that a pod gets of the pipe directory, the kernel lets a client talk to the daemon's socket and named pipe, and neither
// make, rename nor remove anything, be the client root.
func TestReadOnlyPipe(t *testing.T) {
	if dir := os.Getenv(insideVariable); dir != "" {
		tryPipe(t, dir)
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"daemon", "client"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "daemon", "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, socket)
	if err := syscall.Mkfifo(filepath.Join(dir, "daemon", "log"), 0o666); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(filepath.Join(dir, "daemon", "log"), os.O_RDWR, 0) // whoever opens it to write is not made to wait
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, pipe)
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReadOnlyPipe$", "-test.v")
	again.Env = append(os.Environ(), insideVariable+"="+dir)
	again.SysProcAttr = ownMounts()
	out, err := again.CombinedOutput()
	switch {
	case errors.Is(err, os.ErrPermission) || strings.Contains(string(out), "--- SKIP"):
		t.Skipf("no mount namespace can be made here: %v\n%s", err, out)
	case err != nil || !strings.Contains(string(out), "--- PASS"):
		t.Fatalf("%v\n%s", err, out)
	}
}

// ownMounts has a process begin in a mount namespace of its own, in which it is root.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// tryPipe mounts the daemon's directory as a pod gets it, and does what a client does, and what one must not.
func tryPipe(t *testing.T, dir string) {
	flags := map[string]uintptr{"bind": syscall.MS_BIND, "ro": syscall.MS_RDONLY, "rw": 0, "nosuid": syscall.MS_NOSUID, "nodev": syscall.MS_NODEV, "noexec": syscall.MS_NOEXEC}
	p := Defaults()
	mounts := p.Whole("GPU-a", "shm-0123456789").Mounts
	i := slices.IndexFunc(mounts, func(m cdi.Mount) bool { return m.Place == defaultPipe })
	var all uintptr
	for _, option := range mounts[i].Options {
		flag, known := flags[option]
		if !known {
			t.Fatalf("option %s is not known", option)
		}
		all |= flag
	}
	client := filepath.Join(dir, "client")
	if err := syscall.Mount(filepath.Join(dir, "daemon"), client, "", syscall.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	if err := syscall.Mount("", client, "", all|syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", filepath.Join(client, "control")); err != nil {
		t.Errorf("the socket: %v", err)
	} else {
		closes(t, c)
	}
	pipe, err := os.OpenFile(filepath.Join(client, "log"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("the named pipe: %v", err)
	}
	defer closes(t, pipe)
	if _, err := pipe.WriteString("x"); err != nil {
		t.Errorf("the named pipe: %v", err)
	}
	control := filepath.Join(client, "control")
	for what, err := range map[string]error{
		"made": os.WriteFile(filepath.Join(client, "own"), nil, 0o600), "removed": os.Remove(control), "renamed": os.Rename(control, control+"2"),
		"closed to others": os.Chmod(control, 0o600),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("a file is %s: %v", what, err)
		}
	}
}

func closes(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
