package parts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// mirror is Debian's archive unless HILBERT_DEBIAN_MIRROR names another.
	mirror = "http://deb.debian.org/debian"
	// distribution is the release that QEMU's and the kernel's backports are for.
	distribution = "bookworm"
)

// tools are the packages that are run or copied, with all that they depend on, down to the C library.
var tools = []string{"qemu-system-x86=" + QEMUVersion, "busybox-static", "e2fsprogs", "xz-utils"} //nolint:gochecknoglobals // a constant

// debian is a directory with Debian packages unpacked: root has the tools, kernel the kernel, seccomp what runc is built with.
type debian string

// debian unpacks packages into the cache, in a root of their own with all libraries: they run on any Linux, and are installed nowhere.
func (b *builder) debian(ctx context.Context) (debian, error) {
	source := archive()
	name := "debian-" + digest(append([]string{distribution, KernelRelease}, tools...)...)
	dir, err := b.once(name, false, func(dir string) error {
		a, err := newApt(filepath.Join(dir, "apt"), source)
		if err != nil {
			return err
		}
		if err := a.run(ctx, "update"); err != nil {
			return fmt.Errorf("%w (are %s and its signing keys, package debian-archive-keyring, to be had?)", err, source)
		}
		if err := a.run(ctx, append([]string{"install", "--download-only", "--yes"}, tools...)...); err != nil {
			return err
		}
		if err := a.unpack(ctx, "cache/archives", filepath.Join(dir, "root")); err != nil {
			return err
		}
		for into, packages := range map[string][]string{
			"kernel": {"linux-image-" + KernelRelease}, "seccomp": {"libseccomp-dev", "libseccomp2"},
		} {
			if err := a.download(ctx, into, packages...); err != nil {
				return err
			}
			if err := a.unpack(ctx, into, filepath.Join(dir, into)); err != nil {
				return err
			}
		}
		return os.RemoveAll(a.dir)
	})
	return debian(dir), err
}

// archive is where packages come from.
func archive() string {
	if source := os.Getenv("HILBERT_DEBIAN_MIRROR"); source != "" {
		return source
	}
	return mirror
}

// kernel is the image that QEMU starts.
func (d debian) kernel() string {
	return filepath.Join(string(d), "kernel", "boot", "vmlinuz-"+KernelRelease)
}

// qemu is its command line as far as it depends on where it lies.
func (d debian) qemu() []string {
	argv := d.command("usr/bin/qemu-system-x86_64")
	for _, firmware := range []string{"usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"} {
		argv = append(argv, "-L", d.path(firmware))
	}
	return argv
}

// command runs a program of the private root with that root's libraries, by its own loader.
func (d debian) command(program string) []string {
	libraries := []string{
		d.path("lib/x86_64-linux-gnu"), d.path("usr/lib/x86_64-linux-gnu"), d.path("usr/lib/x86_64-linux-gnu/pulseaudio"),
	}
	return []string{d.path("lib64/ld-linux-x86-64.so.2"), "--library-path", strings.Join(libraries, ":"), d.path(program)}
}

func (d debian) path(in string) string { return filepath.Join(string(d), "root", in) }

// apt is an apt-get with settings, lists and an empty record of installed packages of its own.
type apt struct{ dir, source string }

func newApt(dir, source string) (*apt, error) {
	a := &apt{dir: dir, source: source}
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	var sources strings.Builder
	for _, suite := range []string{"", "-updates", "-backports"} {
		fmt.Fprintf(&sources, "deb %s %s%s main\n", source, distribution, suite)
	}
	for name, text := range map[string]string{
		"sources.list": sources.String(),
		"status":       "", // nothing is installed: take everything
		"preferences": "Package: qemu-* seabios ipxe-* linux-image-*\n" +
			"Pin: release n=" + distribution + "-backports\nPin-Priority: 990\n",
		"apt.conf": a.settings(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *apt) settings() string {
	var b strings.Builder
	for _, setting := range [][2]string{
		{"Dir::Etc::sourcelist", a.dir + "/sources.list"},
		{"Dir::Etc::sourceparts", "/dev/null"},
		{"Dir::Etc::preferences", a.dir + "/preferences"},
		{"Dir::Etc::preferencesparts", "/dev/null"},
		{"Dir::State", a.dir + "/state"},
		{"Dir::State::status", a.dir + "/status"},
		{"Dir::Cache", a.dir + "/cache"},
		{"Dir::Log", a.dir},
		{"APT::Architecture", "amd64"},
		{"APT::Architectures", "amd64"},
		{"APT::Install-Recommends", "false"},
		{"APT::Sandbox::User", ""}, // it need not, and without root cannot, become another user
		{"Acquire::Retries", "3"},
		{"Acquire::Languages", "none"},
		{"Debug::NoLocking", "true"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", setting[0], setting[1])
	}
	return b.String()
}

func (a *apt) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"))
	return command
}

func (a *apt) run(ctx context.Context, args ...string) error {
	return output(a.command(ctx, "apt-get", append([]string{"--quiet"}, args...)...))
}

// download gets packages themselves, without what they depend on, into a directory below apt's own.
func (a *apt) download(ctx context.Context, into string, packages ...string) error {
	dir := filepath.Join(a.dir, into)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	command := a.command(ctx, "apt-get", append([]string{"--quiet", "download"}, packages...)...)
	command.Dir = dir
	return output(command)
}

// unpack unpacks all packages of one directory into another.
func (a *apt) unpack(ctx context.Context, from, to string) error {
	packages, err := filepath.Glob(filepath.Join(a.dir, from, "*.deb"))
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("apt-get left no packages in %s", filepath.Join(a.dir, from))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, one := range packages {
		if err := output(exec.CommandContext(ctx, "dpkg", "--extract", one, to)); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command and keeps the end of what it said for the error.
func output(command *exec.Cmd) error {
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err := command.Run()
	if err == nil {
		return nil
	}
	const most = 2000
	text := strings.TrimSpace(said.String())
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, text)
}
