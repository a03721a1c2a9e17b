package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Platform is a system and an architecture that programs are compiled for.
type Platform struct{ OS, Arch string }

// String is the platform as Go and OCI write it: linux/arm64.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Platforms are those of a release. hilbertd runs on Linux only; hilbert runs where people work.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// The programs of a release.
const (
	daemon = "hilbertd"
	tool   = "hilbert"
)

// runsOn says whether a program is released for a platform.
func runsOn(program string, p Platform) bool { return program == tool || p.OS == "linux" }

// Release is one release, before it is made.
type Release struct {
	// Root is the folder of the product's go.mod, Out the folder to write, which must be empty or absent.
	Root, Out string
	// Version is a semantic version with a leading v.
	Version string
	// Commit is the full hash of the commit, Time when it was made.
	Commit string
	Time   time.Time
	// Platforms are those to compile for.
	Platforms []Platform
	// Registry is where images and charts will be pushed to, without a scheme; the charts name it.
	Registry string
	// Downloads is the URL below which the files of Out will be found; the manifest for krew names it.
	Downloads string
	// Key is the file of a minisign key without password; "": nothing is signed.
	Key string
	// Cache is the go command's build cache, "": its own.
	Cache string
}

// semantic is a version as semver.org has it, with a leading v and without build metadata, which tags of images cannot have.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// check finds mistakes before minutes are spent.
func (r *Release) check() error {
	switch {
	case !semantic.MatchString(r.Version):
		return fmt.Errorf("version %q: want a semantic version with a leading v and without build metadata, for example v0.1.0", r.Version)
	case len(r.Platforms) == 0:
		return errors.New("no platforms")
	case r.Time.IsZero() || r.Commit == "":
		return errors.New("a release needs its commit and the time of it")
	}
	entries, err := os.ReadDir(r.Out)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, so that nothing of another release is in it", r.Out)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.MkdirAll(r.Out, 0o755)
}

// binary is a compiled program.
type binary struct {
	program  string
	platform Platform
	path     string
	sbom     string // the file name of its bill of materials
}

// Make makes the release.
func (r *Release) Make(ctx context.Context, log func(format string, args ...any)) error {
	if err := r.check(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "hilbert-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var built []binary
	for _, p := range r.Platforms {
		for _, program := range []string{tool, daemon} {
			if !runsOn(program, p) {
				continue
			}
			log("compile %s for %s", program, p)
			b := binary{program: program, platform: p, path: filepath.Join(work, program+"_"+p.OS+"_"+p.Arch)}
			if err := r.compile(ctx, &b); err != nil {
				return err
			}
			built = append(built, b)
		}
	}
	for i := range built {
		if err := r.writeSBOM(&built[i]); err != nil {
			return err
		}
		if err := r.archive(&built[i]); err != nil {
			return err
		}
	}
	log("image of %s", daemon)
	if err := r.writeImage(built, work); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, name := range charts {
		log("chart %s", name)
		if err := r.writeChart(name); err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
	}
	if err := r.writeKrew(built); err != nil {
		return fmt.Errorf("krew manifest: %w", err)
	}
	if err := r.writeSums(); err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	return r.sign()
}

// fileName is the name of an archive or a bill of materials of a program.
func (r *Release) fileName(b *binary, suffix string) string {
	return fmt.Sprintf("%s_%s_%s_%s%s", b.program, r.Version, b.platform.OS, b.platform.Arch, suffix)
}

// create writes a file of the release.
func (r *Release) create(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.Out, name), data, 0o644)
}

// sortBinaries sorts by program, system and architecture.
func sortBinaries(list []binary) {
	slices.SortFunc(list, func(a, b binary) int {
		return cmp.Or(cmp.Compare(a.program, b.program), cmp.Compare(a.platform.OS, b.platform.OS), cmp.Compare(a.platform.Arch, b.platform.Arch))
	})
}
