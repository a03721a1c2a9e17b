package parts

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// systemdPackages are what the second profile of the guest has more, with all that they depend on. usr-is-merged keeps perl out, which would
// merge directories that are not merged here.
var systemdPackages = []string{"systemd", "dbus", "usr-is-merged"} //nolint:gochecknoglobals // a constant

// systemdfs are the settings of the second profile, which replace or add to those of the first.
//
//go:embed systemdfs
var systemdfs embed.FS

// unwanted are the directories of packages that nothing in the guest reads.
var unwanted = []string{ //nolint:gochecknoglobals // a constant
	"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/perl", "usr/share/perl5", "usr/lib/x86_64-linux-gnu/gconv",
	"usr/lib/x86_64-linux-gnu/perl-base", "usr/lib/systemd/boot", "usr/share/bash-completion", "usr/share/zsh",
}

// masked are units that the guest has no use for: each program that starts takes an emulated processor a noticeable part of a second.
const masked = "getty.target systemd-logind.service systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-random-seed.service " +
	"systemd-user-sessions.service systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-clean.timer " +
	"systemd-sysusers.service ldconfig.service systemd-journal-catalog-update.service systemd-journal-flush.service systemd-journald.service " +
	"systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-machine-id-commit.service " +
	"systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service systemd-firstboot.service systemd-boot-system-token.service " +
	"systemd-ask-password-console.path systemd-ask-password-wall.path kmod-static-nodes.service systemd-pcrphase.service " +
	"systemd-pcrphase-sysinit.service systemd-remount-fs.service proc-sys-fs-binfmt_misc.automount systemd-initctl.socket"

// systemd unpacks the packages of the second profile into the cache.
func (b *builder) systemd(ctx context.Context) (string, error) {
	name := "systemd-" + digest(append([]string{distribution}, systemdPackages...)...)
	return b.once(name, false, func(dir string) error {
		a, err := newApt(filepath.Join(dir, "apt"), archive())
		if err != nil {
			return err
		}
		if err := a.run(ctx, "update"); err != nil {
			return err
		}
		if err := a.run(ctx, append([]string{"install", "--download-only", "--yes"}, systemdPackages...)...); err != nil {
			return err
		}
		if err := a.unpack(ctx, "cache/archives", filepath.Join(dir, "root")); err != nil {
			return err
		}
		return os.RemoveAll(a.dir)
	})
}

// addPackages lays the packages' files out. What their maintainers' scripts would do is done by addSystemd.
func addPackages(from, root string) error {
	skip := make(map[string]bool)
	for _, dir := range unwanted {
		skip[dir] = true
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(root, name)
		switch {
		case d.IsDir() && skip[name]:
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case d.Type().IsRegular():
			return copyFile(path, to)
		default:
			return fmt.Errorf("%s is no file, directory or link", path)
		}
	})
}

// addSystemd makes a root disk that is filled one of the second profile: users, the units that matter and none else, and a containerd that
// asks systemd for cgroups.
func addSystemd(root string) error {
	settings, err := fs.Sub(systemdfs, "systemdfs")
	if err != nil {
		return err
	}
	if err := copySettings(settings, root); err != nil {
		return err
	}
	for unit := range strings.FieldsSeq(masked) {
		if err := os.Symlink("/dev/null", filepath.Join(root, "etc/systemd/system", unit)); err != nil {
			return err
		}
	}
	config := filepath.Join(root, "etc/containerd/config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	own, of := []byte("SystemdCgroup = false"), []byte("SystemdCgroup = true")
	if bytes.Count(text, own) != 1 {
		return fmt.Errorf("%s does not have %q once", config, own)
	}
	return os.WriteFile(config, bytes.Replace(text, own, of, 1), 0o644)
}
