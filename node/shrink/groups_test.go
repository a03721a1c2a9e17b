package shrink

import (
	"fmt"
	"strings"
	"testing"

	"hilbert.dev/hilbert/node/advise"
)

// files is a hierarchy of files that are only read.
type files map[string]string

func (f files) Read(path string) (string, error) {
	if text, ok := f[path]; ok {
		return text, nil
	}
	return "", fmt.Errorf("no %s", path)
}

func (files) Write(string, string) error { return nil }

func TestGroups(t *testing.T) {
	k := files{"a/memory.low": "4096\n", "a/memory.min": "0\n", "a/memory.current": "-5\n", "b/memory.low": "max\n"}
	got := Groups(k, []string{"a", "b"})
	want := []advise.MemoryGroup{
		{Dir: "a", Low: advise.Known(4096), Min: advise.Known(0)}, {Dir: "b", Low: advise.Known(advise.Unlimited)},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRecursive(t *testing.T) {
	const plain = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"
	with := strings.Replace(plain, "relatime", "relatime,nsdelegate,memory_recursiveprot", 1)
	for text, want := range map[string]bool{"": false, plain: false, with: true, with + plain: false, "x\n" + strings.ReplaceAll(with, "/sys/", "/other/"): false} {
		if got := Recursive(text, "/sys/fs/cgroup"); got != want {
			t.Errorf("%t of:\n%s", got, text)
		}
	}
}

func TestSwapRoom(t *testing.T) {
	k := files{
		"p/memory.swap.max": "max\n", "p/memory.swap.current": "100\n", "p/a/memory.swap.max": "0\n", "p/a/memory.swap.current": "0\n",
		"p/b/memory.swap.max": "300\n", "p/b/memory.swap.current": "100\n", "q/memory.swap.max": "150\n", "q/memory.swap.current": "100\n",
	}
	for _, c := range []struct {
		pod        string
		containers []string
		want       float64
	}{
		{"p", []string{"p/a"}, 0}, {"p", []string{"p/a", "p/b"}, 200}, {"q", []string{"p/b"}, 50}, {"p", []string{"p/gone"}, 0}, {"gone", []string{"p/b"}, 0}, {"p", nil, 0},
	} {
		if got := SwapRoom(k, c.pod, c.containers); got != advise.Known(c.want) {
			t.Errorf("%s with %v: %+v, want %g", c.pod, c.containers, got, c.want)
		}
	}
}
