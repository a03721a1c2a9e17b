package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// labModule is the module that the guest's kubelet and own binaries are built in.
const labModule = "hilbert.dev/hilbert/lab"

// moduleDir finds the lab's module from anywhere inside it: tests run in their package's directory.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", labModule).Output()
	if err != nil {
		return "", fmt.Errorf("find the module %s (run this inside it): %w", labModule, withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

func (b *builder) moduleVersion(ctx context.Context, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	command.Dir = b.module
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", module, withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// golang is a run of the go command for the guest: amd64, static.
func (b *builder) golang(ctx context.Context, environment []string, args ...string) error {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = b.module
	command.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH), environment...)
	return output(command)
}

// install builds commands of another module, at a version, outside of any module.
func (b *builder) install(ctx context.Context, dir string, environment, flags, packages []string) error {
	return b.golang(ctx, append(environment, "GOBIN="+dir, "GOFLAGS="),
		append(append([]string{"install", "-p", "2", "-trimpath"}, flags...), packages...)...)
}

func (b *builder) kubelet(ctx context.Context, version string) (string, error) {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("k8s.io/kubernetes has version %q", version)
	}
	// Without these the kubelet says that it is v0.0.0-master, and the API server's version checks fail.
	const at = " -X k8s.io/component-base/version."
	flags := "-s -w" + at + "gitVersion=" + version + at + "gitMajor=" + numbers[0] + at + "gitMinor=" + numbers[1]
	return b.once("kubelet-"+version, false, func(dir string) error {
		return b.golang(ctx, nil, "build", "-p", "2", "-trimpath", "-ldflags", flags, "-o", filepath.Join(dir, "kubelet"), "k8s.io/kubernetes/cmd/kubelet")
	})
}

func (b *builder) containerd(ctx context.Context) (string, error) {
	const module = "github.com/containerd/containerd/v2"
	return b.once("containerd-"+ContainerdVersion, false, func(dir string) error {
		var packages []string
		for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
			packages = append(packages, module+"/cmd/"+name+"@"+ContainerdVersion)
		}
		return b.install(ctx, dir, nil, []string{"-ldflags", "-s -w -X " + module + "/version.Version=" + ContainerdVersion}, packages)
	})
}

func (b *builder) cni(ctx context.Context) (string, error) {
	return b.once("cni-"+CNIVersion, false, func(dir string) error {
		var packages []string
		for _, name := range []string{"main/bridge", "main/loopback", "main/ptp", "ipam/host-local"} {
			packages = append(packages, "github.com/containernetworking/plugins/plugins/"+name+"@"+CNIVersion)
		}
		return b.install(ctx, dir, nil, []string{"-ldflags", "-s -w"}, packages)
	})
}

// runc needs C: it enters namespaces before Go's runtime starts, and without seccomp every pod fails. Headers and the static library come
// from the unpacked packages, so that only a C compiler is asked of the machine.
func (b *builder) runc(ctx context.Context, from debian) (string, error) {
	return b.once("runc-"+RuncVersion, false, func(dir string) error {
		if _, err := exec.LookPath("gcc"); err != nil {
			return fmt.Errorf("runc needs a C compiler and the C library's static form (packages gcc and libc6-dev): %w", err)
		}
		shim := filepath.Join(dir, "pkg-config")
		seccomp := filepath.Join(string(from), "seccomp", "usr")
		script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*--cflags*) echo '-I%s/include' ;;\n*--libs*) echo '-L%s/lib/x86_64-linux-gnu -lseccomp' ;;\nesac\n",
			seccomp, seccomp)
		if err := os.WriteFile(shim, []byte(script), 0o755); err != nil {
			return err
		}
		err := b.install(ctx, dir, []string{"CGO_ENABLED=1", "PKG_CONFIG=" + shim},
			[]string{"-tags", "seccomp netgo osusergo", "-ldflags", "-s -w -extldflags -static -X main.version=" + strings.TrimPrefix(RuncVersion, "v")},
			[]string{"github.com/opencontainers/runc@" + RuncVersion})
		if err != nil {
			return err
		}
		return os.Remove(shim)
	})
}

// own builds the guest's first process and its workload, always: the go command knows best whether they changed. Their directory is
// named by what came out.
func (b *builder) own(ctx context.Context) (string, error) {
	temporary, err := os.MkdirTemp(b.Cache, ".new-")
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	defer os.RemoveAll(temporary)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", temporary + "/"}
	var digests []string
	names := []string{"hilbert-vm-init", "hilbert-vm-busy"}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	if err := b.golang(ctx, nil, args...); err != nil {
		return "", fmt.Errorf("build the guest's own commands: %w", err)
	}
	for _, name := range names {
		sum, err := fileDigest(filepath.Join(temporary, name))
		if err != nil {
			return "", err
		}
		digests = append(digests, sum)
	}
	return b.once("own-"+digest(digests...), true, func(dir string) error {
		for _, name := range names {
			if err := os.Rename(filepath.Join(temporary, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	})
}
