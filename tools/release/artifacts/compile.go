package artifacts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// versionPackage has the variables that the linker sets.
const versionPackage = "hilbert.dev/hilbert/internal/version"

// compile compiles a program: static, without paths of this machine, and without what the go command would record of the repository's state, which is
// linked in instead.
func (r *Release) compile(ctx context.Context, b *binary) error {
	flags := []string{"-s", "-w", "-buildid="}
	for _, name := range slices.Sorted(maps.Keys(r.stamps())) {
		flags = append(flags, "-X", versionPackage+"."+name+"="+r.stamps()[name])
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", strings.Join(flags, " "), "-o", b.path, "./cmd/"+b.program)
	command.Dir = r.Root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.platform.OS, "GOARCH="+b.platform.Arch,
		"GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if r.Cache != "" {
		command.Env = append(command.Env, "GOCACHE="+r.Cache)
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", b.program, b.platform, err, out)
	}
	return nil
}

// stamps are the variables of package version.
func (r *Release) stamps() map[string]string {
	return map[string]string{"release": r.Version, "commit": r.Commit, "commitTime": r.Time.UTC().Format(time.RFC3339)}
}
