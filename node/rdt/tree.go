package rdt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Dir is the Tree below a directory: "/sys/fs/resctrl".
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

// Read implements Tree.
func (d Dir) Read(name string) (string, error) {
	text, err := os.ReadFile(d.path(name))
	return string(text), err
}

// Write implements Tree: one write to a file that is there.
func (d Dir) Write(name, value string) error {
	file, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// Mkdir implements Tree.
func (d Dir) Mkdir(name string) error { return os.Mkdir(d.path(name), 0o755) }

// Remove implements Tree. The kernel takes a group's files along.
func (d Dir) Remove(name string) error { return os.Remove(d.path(name)) }

// List implements Tree.
func (d Dir) List(name string) ([]string, error) {
	entries, err := os.ReadDir(d.path(name))
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// depthMost is how deep below a pod's cgroup threads are looked for, threadsMost how many are listed.
const depthMost, threadsMost = 4, 1 << 15

// Threads lists the threads of a pod: those of its cgroup below the root of the hierarchy, "/sys/fs/cgroup", and of the cgroups below that. What
// vanishes meanwhile is left out.
func Threads(root, cgroup string) ([]int, error) {
	if _, err := os.Stat(filepath.Join(root, cgroup)); err != nil {
		return nil, err
	}
	out := threadsIn(filepath.Join(root, cgroup), depthMost, nil)
	slices.Sort(out)
	return slices.Compact(out), nil
}

func threadsIn(dir string, depth int, out []int) []int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.threads"))
	if err != nil {
		return out
	}
	for field := range strings.FieldsSeq(string(text)) {
		if thread, err := strconv.Atoi(field); err == nil && thread > 0 && len(out) < threadsMost {
			out = append(out, thread)
		}
	}
	if depth == 0 {
		return out
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out
	}
	for _, entry := range entries {
		if entry.IsDir() {
			out = threadsIn(filepath.Join(dir, entry.Name()), depth-1, out)
		}
	}
	return out
}
