package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"hilbert.dev/hilbert/node/enforce"
)

// maxCgroups bounds how many cgroups are looked at: some eighty times what a kubelet's 110 pods have.
const maxCgroups = 1 << 16

// ErrTooMany says that not all cgroups were looked at.
var ErrTooMany = errors.New("there are too many cgroups")

// Reset makes the files of the parts what they are on a node without an agent: those of top, "kubepods", of the cgroups below it, and at the root. tree is the
// hierarchy, for its directories; the files are read and written by kernel. It returns how many writes the kernel took, and what it
// refused. A cgroup that has gone is no error, nor is the container of the cleanup itself, which ends.
func Reset(kernel enforce.Kernel, tree fs.FS, top string, parts []Part) (written int, err error) {
	available, all, err := Read(kernel, tree, top, parts)
	errs := []error{err}
	for _, w := range Plan(parts, all, available) {
		err := kernel.Write(w.Path, w.Value)
		if err != nil && w.Else != "" && !errors.Is(err, fs.ErrNotExist) {
			err = kernel.Write(w.Path, w.Else)
		}
		switch {
		case err == nil:
			written++
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, enforce.ErrOwnContainer):
			errs = append(errs, fmt.Errorf("%s = %q: %w", w.Path, w.Value, err))
		}
	}
	return written, errors.Join(errs...)
}

// Read reads the files of the parts, of the root, of top and of all cgroups below it, and what all pods may use.
func Read(kernel enforce.Kernel, tree fs.FS, top string, parts []Part) (available Available, all []Cgroup, err error) {
	available.CPUs, err = kernel.Read(path.Join(top, "cpuset.cpus.effective"))
	if errors.Is(err, fs.ErrNotExist) {
		return available, nil, nil // no pod has ever run here
	}
	if err == nil {
		available.Mems, err = kernel.Read(path.Join(top, "cpuset.mems.effective"))
	}
	if err != nil {
		return available, nil, fmt.Errorf("what the pods may use: %w", err)
	}
	all = []Cgroup{read(kernel, "", []string{costQuality})}
	var wanted []string
	for _, part := range parts {
		wanted = append(wanted, files[part]...)
	}
	// The CPUs of all pods together are the kubelet's.
	ofTop := slices.DeleteFunc(slices.Clone(wanted), func(file string) bool { return file == enforce.CPUSet || file == enforce.Mems })
	err = fs.WalkDir(tree, top, func(dir string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case len(all) == maxCgroups:
			return ErrTooMany
		case dir == top:
			all = append(all, read(kernel, dir, ofTop))
		default:
			all = append(all, read(kernel, dir, wanted))
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("the cgroups of pods: %w", err)
	}
	return available, all, err
}

// read reads the files that a cgroup has.
func read(kernel enforce.Kernel, dir string, wanted []string) Cgroup {
	out := Cgroup{Dir: dir, Values: make(map[string]string, len(wanted))}
	for _, file := range wanted {
		if value, err := kernel.Read(path.Join(dir, file)); err == nil {
			out.Values[file] = value
		}
	}
	return out
}
