package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// self is where the root disk has this binary.
	self = "/sbin/hilbert-vm-init"
	// rootDevice is the root disk, newRoot where it is mounted before it becomes the root.
	rootDevice, newRoot = "/dev/vda", "/newroot"
	// deviceTimeout bounds the wait for the root disk to appear.
	deviceTimeout = 10 * time.Second
)

// environment is what every process of the guest gets. They have no other: there is no login.
var environment = []string{ //nolint:gochecknoglobals // a constant but for its type
	"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "TMPDIR=/tmp",
}

type mountPoint struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// start brings the machine from the initial RAM disk to its root disk, with a network. It returns what failed and can be done without.
func start() (problems []string, err error) {
	problem := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	early := []mountPoint{
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
	}
	for _, m := range early {
		if err := m.mount(""); err != nil {
			return nil, err
		}
	}
	for _, failed := range loadModules("/modules") {
		problem("module", failed)
	}
	if err := enterRoot(early); err != nil {
		return nil, err
	}
	systemd := hasSystemd()
	for _, m := range []mountPoint{
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID, "mode=755"},
		{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID, "mode=1777"},
		{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID, "mode=1777"},
		{"devpts", "/dev/pts", "devpts", 0, "ptmxmode=666"},
		{"mqueue", "/dev/mqueue", "mqueue", 0, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot"},
		{"debugfs", "/sys/kernel/debug", "debugfs", 0, ""},
		{"tracefs", "/sys/kernel/tracing", "tracefs", 0, ""},
		{"bpf", "/sys/fs/bpf", "bpf", 0, ""},
	} {
		if m.kind == "cgroup2" && systemd {
			continue // it mounts that itself, and hands controllers on as its units need them
		}
		problem("mount", m.mount(""))
	}
	// What systemd does on a real machine: mounts made in one namespace are seen in those below.
	problem("share the mounts", unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""))
	if !systemd {
		problem("cgroup controllers", enableControllers())
	}
	for name, value := range map[string]string{
		"/proc/sys/net/ipv4/ip_forward":     "1",
		"/proc/sys/vm/overcommit_memory":    "1", // as the kubelet wants it
		"/proc/sys/kernel/panic":            "10",
		"/proc/sys/kernel/panic_on_oops":    "1",
		"/proc/sys/kernel/sched_schedstats": "1",
	} {
		problem("sysctl", writeRaw(name, []byte(value)))
	}
	problem("network", startNetwork())
	return problems, nil
}

func (m mountPoint) mount(below string) error {
	target := below + m.target
	if err := os.MkdirAll(target, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s: %w", target, err)
	}
	if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("%s on %s: %w", m.kind, target, err)
	}
	return nil
}

// loadModules loads all modules of dir, in order of their names.
func loadModules(dir string) (failed []error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return []error{err}
	}
	for _, file := range files {
		if err := loadModule(file); err != nil && !errors.Is(err, unix.EEXIST) {
			failed = append(failed, fmt.Errorf("%s: %w", filepath.Base(file), err))
		}
	}
	return failed
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// enterRoot makes the root disk the root, as switch_root does: a container runtime cannot pivot away from a RAM disk.
func enterRoot(mounted []mountPoint) error {
	for end := time.Now().Add(deviceTimeout); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(rootDevice); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("no root disk %s after %s", rootDevice, deviceTimeout)
		}
	}
	if err := (mountPoint{rootDevice, newRoot, "ext4", unix.MS_NOATIME, ""}).mount(""); err != nil {
		return err
	}
	for _, m := range mounted {
		if err := os.MkdirAll(newRoot+m.target, 0o755); err != nil {
			return fmt.Errorf("root disk: %w", err)
		}
		if err := unix.Mount(m.target, newRoot+m.target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", m.target, err)
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return fmt.Errorf("root disk: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return unix.Chdir("/")
}

// enableControllers hands every controller to the cgroups below the root.
func enableControllers() error {
	all, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return err
	}
	var failed []error
	for name := range strings.FieldsSeq(string(all)) {
		failed = append(failed, writeRaw("/sys/fs/cgroup/cgroup.subtree_control", []byte("+"+name)))
	}
	return errors.Join(failed...)
}

// startNetwork gives the virtio interface the address that QEMU's user network expects of its guest.
func startNetwork() error {
	links, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		return err
	}
	device := ""
	for _, link := range links {
		if driver, err := os.Readlink(link + "/device/driver"); err == nil && filepath.Base(driver) == "virtio_net" {
			device = filepath.Base(link)
			break
		}
	}
	if device == "" {
		return fmt.Errorf("no virtio interface among %v", links)
	}
	for _, command := range []string{
		"ip link set lo up",
		"ip addr add 10.0.2.15/24 dev " + device,
		"ip link set " + device + " up",
		"ip route add default via 10.0.2.2",
	} {
		argv := strings.Fields(command)
		if out, err := exec.Command("/bin/"+argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// writeRaw is one write to an existing file. Package os would wait forever where the kernel answers EAGAIN, as memory.reclaim does.
func writeRaw(name string, data []byte) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	_, err = unix.Write(fd, data)
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", data, name, err)
	}
	return nil
}
