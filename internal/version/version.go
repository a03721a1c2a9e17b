// Package version says which build of Hilbert a program is.
//
// Data flow: `make release` links the version, the commit and its time in (-X …/internal/version.release=v0.1.0). Any other build takes what the go command recorded of the
// repository: the nearest tag, the commit and its time. Everything that names a build reads Get: --version, hilbert version, the metric
// hilbert_build_info, reports, User-Agent and Server headers.
//
//	version.Get().Version // v0.1.0; v0.0.0-20261125184320-a62bc88d8f3e+dirty; v0.0.0-unknown
//
// Invariants: Version is always a semantic version, so that it can be compared and is a legal label of an image; it is never empty and never "(devel)".
// It is not a list of features: what a server can do is asked of its API.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Unknown is the version of a build without version control, such as a test.
const Unknown = "v0.0.0-unknown"

// What the linker sets in a release: its version, the hash of its commit, and the commit's time.
var release, commit, commitTime string

// Info is a build.
type Info struct {
	// Version is a semantic version with a leading v.
	Version string `json:"version"`
	// Commit is the full hash of the commit, "" if it is not known.
	Commit string `json:"commit,omitempty"`
	// Time is when the commit was made, as RFC 3339; "" if it is not known.
	Time string `json:"time,omitempty"`
	// Modified says that the tree had changes that are in no commit.
	Modified bool `json:"modified,omitempty"`
	// Go is the version of Go that compiled it, Platform the system and the architecture that it was compiled for: linux/amd64.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the running program's build.
func Get() Info {
	info, _ := debug.ReadBuildInfo()
	return read(Info{Version: release, Commit: commit, Time: commitTime}, info)
}

// read joins what the linker and what the go command recorded; build may be nil.
func read(linked Info, build *debug.BuildInfo) Info {
	i := Info{Version: Unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.time":
				i.Time = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
		if strings.HasPrefix(build.Main.Version, "v") {
			i.Version = build.Main.Version
		}
	}
	if linked.Version != "" { // the builder says which commit it is; the go command may not have looked
		i.Version, i.Commit, i.Time, i.Modified = linked.Version, linked.Commit, linked.Time, false
	}
	return i
}

// String is the build in one line, as --version prints it.
func (i Info) String() string {
	var more []string
	if i.Commit != "" {
		more = append(more, "commit "+i.Commit[:min(12, len(i.Commit))])
	}
	if i.Modified {
		more = append(more, "modified")
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(append(more, i.Go, i.Platform), ", "))
}
