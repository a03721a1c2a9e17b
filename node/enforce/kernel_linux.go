package enforce

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxValueBytes bounds what is read of a knob's file.
	maxValueBytes = 4 << 10
	// usualValueBytes is what nearly all of them fit in.
	usualValueBytes = 128
	// maxProcessBytes bounds what is read of cgroup.procs, and so, at some 7 bytes a line, the processes whose OOMScoreAdj is looked at.
	maxProcessBytes = 2 << 10
)

// Files is the real Kernel: the cgroup v2 hierarchy, and /proc for OOMScoreAdj. It follows no symbolic link, so that no name leads out of the
// hierarchy. Several goroutines may use it.
type Files struct {
	root      int // the hierarchy
	processes int // /proc
}

// OpenFiles opens a cgroup v2 hierarchy, "/sys/fs/cgroup", and "/proc". It fails where the first is none: with cgroup v1 nothing of what
// the agent promises could be kept.
func OpenFiles(root, processes string) (*Files, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(root, &info); err != nil {
		return nil, fmt.Errorf("cgroup hierarchy %s: %w", root, err)
	}
	if info.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("%s is no cgroup v2 hierarchy: the agent needs cgroup v2 alone; boot with systemd.unified_cgroup_hierarchy=1, or use a distribution that has it", root)
	}
	return openDirectories(root, processes)
}

// openDirectories is OpenFiles for any directories.
func openDirectories(root, processes string) (*Files, error) {
	f := &Files{}
	var err error
	if f.root, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	if f.processes, err = unix.Open(processes, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", processes, err), unix.Close(f.root))
	}
	return f, nil
}

// Close gives the directories back.
func (f *Files) Close() error { return errors.Join(unix.Close(f.root), unix.Close(f.processes)) }

// Controllers returns the controllers that the root of the hierarchy has.
func (f *Files) Controllers() ([]string, error) {
	text, err := f.read(f.root, "cgroup.controllers", maxValueBytes)
	return strings.Fields(text), err
}

// Read implements Kernel. Of OOMScoreAdj it returns the lowest of the cgroup's processes, the highest possible where there are none.
func (f *Files) Read(name string) (string, error) {
	if path.Base(name) != OOMScoreAdj {
		return f.read(f.root, name, maxValueBytes)
	}
	lowest := 1000
	err := f.eachProcess(path.Dir(name), func(_ string, score int) error {
		lowest = min(lowest, score)
		return nil
	})
	return strconv.Itoa(lowest), err
}

// Write implements Kernel. The kernel takes IOMax and IOLatency for one device at a time. OOMScoreAdj is only ever raised: a process that has made itself a likelier victim stays one. Lowering would take a
// capability that the agent has no other use for.
func (f *Files) Write(name, value string) error {
	switch path.Base(name) {
	case IOMax, IOLatency:
		return eachLine(value, func(line string) error { return f.write(f.root, name, line) })
	case OOMScoreAdj:
	default:
		err := f.write(f.root, name, value)
		if errors.Is(err, unix.EPERM) && f.own(path.Dir(name)) {
			err = fmt.Errorf("%w: %w", ErrOwnContainer, err)
		}
		return err
	}
	want, err := strconv.Atoi(value)
	if err != nil {
		return err
	}
	return f.eachProcess(path.Dir(name), func(file string, score int) error {
		if score >= want {
			return nil
		}
		return f.write(f.processes, file, value)
	})
}

// eachLine has the lines of several devices written. One whose device has vanished (ENODEV) does not keep the others from theirs; any other error comes before that one.
func eachLine(value string, write func(line string) error) (err error) {
	for line := range strings.SplitSeq(value, "\n") {
		if failed := write(line); failed != nil && (err == nil || errors.Is(err, unix.ENODEV)) {
			err = failed
		}
	}
	return err
}

// own reports whether this process is in a cgroup. Without the host's PID namespace its own number is one of the few that it sees.
func (f *Files) own(cgroup string) bool {
	list, err := f.read(f.root, cgroup+"/cgroup.procs", maxProcessBytes)
	return err == nil && slices.Contains(strings.Fields(list), strconv.Itoa(os.Getpid()))
}

// eachProcess calls visit with the file and the score of each process of a cgroup. A process that ends meanwhile is passed over.
func (f *Files) eachProcess(cgroup string, visit func(file string, score int) error) error {
	list, err := f.read(f.root, cgroup+"/cgroup.procs", maxProcessBytes)
	if err != nil {
		return err
	}
	if len(list) == maxProcessBytes { // the last line may be half a number
		list = list[:strings.LastIndexByte(list, '\n')+1]
	}
	for pid := range strings.FieldsSeq(list) {
		if pid == "0" {
			return fmt.Errorf("cgroup %s has processes that cannot be seen from here: the agent must share the host's PID namespace: %w", cgroup, unix.EPERM)
		}
		file := pid + "/" + OOMScoreAdj
		text, err := f.read(f.processes, file, maxValueBytes)
		if err == nil {
			var score int
			if score, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			err = visit(file, score)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

func (f *Files) read(root int, name string, most int) (string, error) {
	fd, err := open(root, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	buffer := make([]byte, min(most, usualValueBytes))
	n := 0
	for n < most {
		if n == len(buffer) {
			buffer = append(buffer, make([]byte, min(n, most-n))...)
		}
		got, err := unix.Read(fd, buffer[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if got == 0 {
			break
		}
		n += got
	}
	return string(buffer[:n]), nil
}

// write writes by the plain system calls: os.File would take some of these files for pollable and wait forever on EAGAIN.
func (f *Files) write(root int, name, value string) error {
	fd, err := open(root, name, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// open opens a file below root: neither ".." nor a link leads out, nor is any link followed (openat2, since Linux 5.6).
func open(root int, name string, flags int) (int, error) {
	if !fs.ValidPath(name) || name == "." {
		return -1, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(root, name, &how)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}
