// Package parts gets together what a guest of the VM test bed is made of: QEMU, a kernel, containerd, runc, a kubelet, and a root disk
// with all of it.
//
// Everything comes from Debian's archive and from the Go module proxy, by exact version, through apt-get and go; neither root nor an
// installed QEMU is needed, and nothing is written outside the cache. What is not Debian's is built here, the kubelet from the very
// module that the lab's control plane is built from.
//
// Invariants: a part is a directory of the cache whose name holds its version; it is made under another name and renamed when it is
// whole, so what is there is complete. Two processes never build at a time. A part is never changed: another version is another directory.
package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Versions of the parts. The kubelet's is that of the lab's module, so that both ends speak the same API.
const (
	QEMUVersion       = "1:10.0.2+ds-2+deb13u1~bpo12+1" // Debian 12's own 7.2 loses one guest in three
	KernelRelease     = "6.12.95+deb12-amd64"           // the full image: the cloud flavour lacks e1000e
	ContainerdVersion = "v2.4.2"
	RuncVersion       = "v1.5.2"
	CNIVersion        = "v1.9.1"
)

// PauseImage holds a pod's sandbox, BusyImage is what its containers run; see the command hilbert-vm-busy. Both are in the guest's store.
const (
	PauseImage = "hilbert.dev/pause:1"
	BusyImage  = "hilbert.dev/busy:1"
)

// unusedFor is how long a part of the project's own is kept after its last use.
const unusedFor = 24 * time.Hour

// ErrMissing says that a part is not in the cache and was not to be made.
var ErrMissing = errors.New("the guest's parts are not there: make vm-parts gets them")

// Options says where parts are and whether to make those that are missing. The zero value only looks.
type Options struct {
	// Cache is the directory of all parts; "" is $HILBERT_CACHE, or hilbert/vm in the user's cache directory.
	Cache string
	// Systemd asks for the second profile of the guest, whose first process is systemd: another root disk.
	Systemd bool
	// Build makes what is missing: minutes, and a network, the first time.
	Build bool
	// Progress gets a line for each part that is made, with the seconds that it took; nil says nothing.
	Progress io.Writer
}

// Parts are the paths of everything that a guest needs.
type Parts struct {
	// QEMU is the command line that QEMU's own options follow.
	QEMU []string
	// Kernel, Initrd and Disk are what it boots. The disk is read, never written.
	Kernel, Initrd, Disk string
	// KubernetesVersion is the kubelet's.
	KubernetesVersion string
}

// builder makes parts, each once.
type builder struct {
	Options
	module string // the directory of the lab's module
}

// Open returns the parts of this tree's guest. What belongs to the project itself (the guest's first process, its workload, the root disk)
// is made anew whenever it changed; the rest only with Build, and without it ErrMissing says what is not there.
func Open(ctx context.Context, o Options) (*Parts, error) {
	cache, err := cacheDir(o.Cache)
	if err != nil {
		return nil, err
	}
	o.Cache = cache
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	b := &builder{Options: o}
	if b.module, err = moduleDir(ctx); err != nil {
		return nil, err
	}
	return b.all(ctx)
}

func (b *builder) all(ctx context.Context) (*Parts, error) {
	debian, err := b.debian(ctx)
	if err != nil {
		return nil, err
	}
	kubernetes, err := b.moduleVersion(ctx, "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	var binaries []string // directories
	for _, build := range []func() (string, error){
		func() (string, error) { return b.kubelet(ctx, kubernetes) },
		func() (string, error) { return b.containerd(ctx) },
		func() (string, error) { return b.runc(ctx, debian) },
		func() (string, error) { return b.cni(ctx) },
		func() (string, error) { return b.own(ctx) },
	} {
		dir, err := build()
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, dir)
	}
	content := diskContent{debian: debian, kubelet: binaries[0], containerd: binaries[1], runc: binaries[2], cni: binaries[3], own: binaries[4]}
	initrd, err := b.initrd(ctx, debian, content.own)
	if err != nil {
		return nil, err
	}
	if b.Systemd {
		if content.systemd, err = b.systemd(ctx); err != nil {
			return nil, err
		}
	}
	disk, err := b.disk(ctx, content)
	if err != nil {
		return nil, err
	}
	b.prune(content.own, filepath.Dir(initrd), filepath.Dir(disk))
	return &Parts{
		QEMU: debian.qemu(), Kernel: debian.kernel(), Initrd: initrd, Disk: disk, KubernetesVersion: kubernetes,
	}, nil
}

// once returns the directory of a part, made by build if it is not there. own parts are made even where Build is not set: they need
// neither a network nor long.
func (b *builder) once(name string, own bool, build func(dir string) error) (string, error) {
	dir := filepath.Join(b.Cache, name)
	if _, err := os.Stat(dir); err == nil {
		if b.Build { // once before the guests start, and not at the start of each: it reads a gigabyte
			err = verify(dir)
		}
		return dir, err
	}
	if !own && !b.Build {
		return "", fmt.Errorf("%w (there is no %s)", ErrMissing, dir)
	}
	begin := time.Now()
	fmt.Fprintf(b.Progress, "%-46s …\n", name)
	temporary, err := os.MkdirTemp(b.Cache, ".new-")
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := build(temporary); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	if err := os.Rename(temporary, dir); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	if err := writeSums(dir); err != nil {
		return "", err
	}
	fmt.Fprintf(b.Progress, "%-46s %6.1f s\n", name, time.Since(begin).Seconds())
	return dir, nil
}

// prune removes the project's own parts that were not used for a day, because each change of the guest's first process makes another disk.
// It only saves space, so it ignores errors.
func (b *builder) prune(used ...string) {
	now := time.Now()
	for _, dir := range used {
		_ = os.Chtimes(dir, now, now)
	}
	for _, pattern := range []string{"own-*", "initrd-*", "disk-*", ".new-*"} {
		dirs, _ := filepath.Glob(filepath.Join(b.Cache, pattern)) // the pattern is well-formed
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > unusedFor {
				_ = os.RemoveAll(dir)
				_ = os.Remove(dir + sumsFile)
			}
		}
	}
}

func cacheDir(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv("HILBERT_CACHE")
	}
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a place for the guest's parts: %w (set HILBERT_CACHE)", err)
		}
		dir = filepath.Join(user, "hilbert", "vm")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return dir, nil
}

// lock waits for other processes that make parts.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // err says what matters
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { _ = f.Close() }, nil // which unlocks
}

// digest names what a part was made from, in 12 letters.
func digest(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
