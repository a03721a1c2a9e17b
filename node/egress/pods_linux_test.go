package egress

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The network of a pod is that of any of its processes that has one: the first of a container may have made itself another, and have left what sends where it was.
func TestNetworkOfPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	e, err := newEgress(Options{Cgroups: dir, Proc: filepath.Join(dir, "proc")})
	must(t, err)
	t.Cleanup(func() { _ = e.netlink.close() })
	const own, first = 100, 200 // processes of the host's network, and of none that leads anywhere
	for _, process := range []string{"self", strconv.Itoa(own)} {
		must(t, os.MkdirAll(filepath.Join(dir, "proc", process, "ns"), 0o700))
		must(t, os.Symlink("/proc/self/ns/net", filepath.Join(dir, "proc", process, "ns/net")))
	}
	elsewhere := make([]string, 2*processesMost)
	for i := range elsewhere {
		elsewhere[i] = strconv.Itoa(first + i)
		write(filepath.Join(dir, "proc", elsewhere[i], "ns/net"), "")
	}
	many := strings.Join(elsewhere, "\n")
	for name, c := range map[string]struct {
		containers map[string]string
		there      bool
	}{
		"one process":               {map[string]string{"a": "100"}, true},
		"beside the first":          {map[string]string{"a": "200\n100"}, true},
		"in another container":      {map[string]string{"a": many, "b": "100"}, true},
		"below a container":         {map[string]string{"a": "200", "a/init": "100"}, true},
		"a process has gone":        {map[string]string{"a": "300\n0\n100"}, true},
		"not all are looked at":     {map[string]string{"a": many + "\n100"}, false},
		"none that leads somewhere": {map[string]string{"a": "200", "b": "201"}, false},
		"no process":                {map[string]string{"a": ""}, false},
	} {
		write(filepath.Join(dir, name, "cgroup.procs"), "")
		for container, processes := range c.containers {
			write(filepath.Join(dir, name, container, "cgroup.procs"), processes)
		}
		err := e.want(Pod{Cgroup: name, Reclaimed: true}, nil, nil)
		if found, is := e.pods[name]; is != c.there || (err == nil) != c.there || is && (!found.host || found.slot != noSlot) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if name == "no process" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
