package parts

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// diskSize is the root disk's; it is sparse, and what a guest writes goes to a temporary file of QEMU's.
const diskSize = "4G"

// rootfs are the settings of the guest, as they lie on its root disk.
//
//go:embed rootfs
var rootfs embed.FS

// diskContent are the directories of all that goes onto the root disk.
type diskContent struct {
	debian                              debian
	kubelet, containerd, runc, cni, own string
	systemd                             string // "": the guest's first process is our own
}

// applets are the commands of busybox that the guest has; the kubelet runs mount and umount.
const applets = "sh cat ls mount umount ip ps kill dmesg insmod lsmod df free grep sleep mkswap swapon swapoff dd taskset nsenter find head tail wc " +
	"date cp mv rm mkdir rmdir ln echo env stat sync top pgrep readlink id uname tar vi awk sed sort true false chmod"

// disk makes the root file system. It needs no root: nothing is mounted, and files that belong to another user there are as good.
func (b *builder) disk(ctx context.Context, c diskContent) (string, error) {
	settings, err := settingsDigest(rootfs)
	if err != nil {
		return "", err
	}
	from := []string{string(c.debian), c.kubelet, c.containerd, c.runc, c.cni, c.own, settings, diskSize, applets}
	if c.systemd != "" {
		if settings, err = settingsDigest(systemdfs); err != nil {
			return "", err
		}
		from = append(append(from, c.systemd, settings, masked), unwanted...)
	}
	name := "disk-" + digest(from...)
	dir, err := b.once(name, true, func(dir string) error {
		root := filepath.Join(dir, "root")
		if err := c.fill(root); err != nil {
			return err
		}
		argv := append(c.debian.command("sbin/mke2fs"), "-q", "-t", "ext4", "-d", root, "-E", "lazy_itable_init=0,root_owner=0:0",
			"-O", "^has_journal", "-m", "0", filepath.Join(dir, "disk"), diskSize)
		if err := output(exec.CommandContext(ctx, argv[0], argv[1:]...)); err != nil {
			return err
		}
		return os.RemoveAll(root)
	})
	return filepath.Join(dir, "disk"), err
}

// fill lays the root file system out.
func (c diskContent) fill(root string) error {
	if c.systemd != "" {
		if err := addPackages(filepath.Join(c.systemd, "root"), root); err != nil {
			return err
		}
	}
	for _, dir := range []string{
		"bin", "dev", "etc", "lib/modules", "newroot", "opt/cni/bin", "proc", "root", "run", "sbin", "sys", "tmp", "usr/bin", "usr/sbin",
		"var/lib/containerd", "var/lib/kubelet", "var/log/pods", "var/log/containers",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{c.kubelet: "usr/bin", c.containerd: "usr/bin", c.runc: "usr/bin", c.cni: "opt/cni/bin", c.own: "sbin"} {
		if err := copyAll(from, filepath.Join(root, to)); err != nil {
			return err
		}
	}
	busybox := filepath.Join(root, "bin/busybox")
	if err := copyFile(c.debian.path("bin/busybox"), busybox); err != nil {
		return err
	}
	for _, name := range strings.Fields(applets) {
		// Where a package brought the command itself, that one stays.
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for link, target := range map[string]string{"var/run": "/run", "etc/mtab": "/proc/self/mounts"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	settings, err := fs.Sub(rootfs, "rootfs")
	if err != nil {
		return err
	}
	if err := copySettings(settings, root); err != nil {
		return err
	}
	if c.systemd != "" {
		if err := addSystemd(root); err != nil {
			return err
		}
	}
	return images(filepath.Join(root, "images.tar"), filepath.Join(c.own, "hilbert-vm-busy"), busybox)
}

func copySettings(settings fs.FS, root string) error {
	return fs.WalkDir(settings, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(settings, path)
		if err != nil {
			return err
		}
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		// What is there may be a link to a file of the cache.
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}

func settingsDigest(settings fs.FS) (string, error) {
	var all []string
	err := fs.WalkDir(settings, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(settings, path)
		all = append(all, path, string(data))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the guest's settings: %w", err)
	}
	return digest(all...), nil
}

func copyAll(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := copyFile(filepath.Join(from, file.Name()), filepath.Join(to, file.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyFile links where it can: the disk takes a copy anyhow.
func copyFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
