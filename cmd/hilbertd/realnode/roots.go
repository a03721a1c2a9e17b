package realnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/shrink"
)

// Roots are where a node's kernel is read and written, and where its kubelet answers.
type Roots struct {
	Sys, Proc string
	Run, Dev  string
	CDI       []string      // the specifications of CDI, the weaker first; the last is written
	Observed  observe.Files // with sys, proc and sys/fs/cgroup in it
	Kernel    func() (KernelFiles, error)
	Uncap     func(egress.Options) error // egress.Remove
	// Uevents calls happened when the kernel tells that CPUs or memory come or go; nil: it does not tell.
	Uevents func(ctx context.Context, log *slog.Logger, happened func())
	// KubeletAddress is the node's, "" where it is not known: nothing is asked of the kubelet. KubeletPort is the kubelet's, if it is not the usual one.
	KubeletAddress string
	KubeletPort    int
	// ServiceAccount is the directory with what the agent's pod is known by, and knows the cluster by.
	ServiceAccount string
}

// Cgroups is where the cgroup hierarchy is mounted.
func (r Roots) Cgroups() string { return filepath.Join(r.Sys, "fs", "cgroup") }

// KernelFiles is enforce.Files, or what a test has in its place.
type KernelFiles interface {
	enforce.Kernel
	Controllers() ([]string, error)
	Close() error
}

func Real() Roots {
	roots := Roots{Sys: "/sys", Proc: "/proc", Run: "/run", Dev: "/dev", CDI: cdi.Dirs(), Observed: observe.Root("/"), Uncap: egress.Remove, Uevents: uevents}
	roots.KubeletAddress, roots.ServiceAccount = os.Getenv("NODE_ADDRESS"), serviceAccount
	roots.Kernel = func() (KernelFiles, error) { return enforce.OpenFiles(roots.Cgroups(), roots.Proc) }
	return roots
}

// OpenKernel opens the cgroup hierarchy and sees that what is needed of it is there.
func OpenKernel(roots Roots) (KernelFiles, error) {
	kernel, err := roots.Kernel()
	if err != nil {
		return nil, err
	}
	controllers, err := kernel.Controllers()
	for _, needed := range []string{"cpuset", "cpu", "memory"} {
		if err == nil && !slices.Contains(controllers, needed) {
			err = fmt.Errorf("the cgroup v2 hierarchy has no controller %s; it has: %s", needed, strings.Join(controllers, " "))
		}
	}
	if err != nil {
		return nil, errors.Join(err, kernel.Close())
	}
	return kernel, nil
}

// RecursiveProtection reports whether memory.low of a cgroup protects what is below it. What cannot be read does not count as so.
func RecursiveProtection(roots Roots) bool {
	mounts, err := os.ReadFile(filepath.Join(roots.Proc, "self", "mounts"))
	return err == nil && shrink.Recursive(string(mounts), roots.Cgroups())
}
