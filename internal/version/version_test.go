package version

import (
	"regexp"
	"runtime/debug"
	"testing"
)

// semantic is a version with a leading v, as semver.org has it.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func TestGetIsSemantic(t *testing.T) {
	if got := Get().Version; !semantic.MatchString(got) {
		t.Errorf("this test is version %q", got)
	}
}

func TestRead(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name   string
		linked Info
		build  *debug.BuildInfo
		want   Info
	}{
		{"nothing is recorded", Info{}, nil, Info{Version: Unknown}},
		{"a test", Info{}, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Info{Version: Unknown}},
		{"a module that names none", Info{}, &debug.BuildInfo{}, Info{Version: Unknown}},
		{
			"go build in a clone",
			Info{},
			&debug.BuildInfo{Main: debug.Module{Version: "v0.1.1-0.20260102030405-0123456789ab+dirty"}, Settings: vcs},
			Info{Version: "v0.1.1-0.20260102030405-0123456789ab+dirty", Commit: "0123456789abcdef", Time: "2026-01-02T03:04:05Z", Modified: true},
		},
		{
			"a release",
			Info{Version: "v0.2.0", Commit: "abc", Time: "2026-02-02T03:04:05Z"},
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs},
			Info{Version: "v0.2.0", Commit: "abc", Time: "2026-02-02T03:04:05Z"},
		},
	} {
		got := read(c.linked, c.build)
		if !semantic.MatchString(got.Version) || got.Go == "" || got.Platform == "" {
			t.Errorf("%s: %+v", c.name, got)
		}
		got.Go, got.Platform = "", ""
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestString(t *testing.T) {
	i := Info{Version: "v0.1.0", Commit: "0123456789abcdef", Modified: true, Go: "go1.26", Platform: "linux/arm64"}
	if got, want := i.String(), "v0.1.0 (commit 0123456789ab, modified, go1.26, linux/arm64)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (Info{Version: Unknown, Go: "go1.26", Platform: "linux/arm64"}).String(), "v0.0.0-unknown (go1.26, linux/arm64)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
