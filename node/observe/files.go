package observe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Files is the part of a file system that a Reader needs. Names are as in io/fs: "proc/stat".
type Files interface {
	// Open opens a file to be read many times.
	Open(name string) (File, error)
	// Identity is the inode of a directory. The kernel never gives the inode of a cgroup to another one.
	Identity(dir string) (uint64, error)
}

// File is one file, read from its beginning at each observation.
type File interface {
	// ReadAt reads what the kernel says now. It may give less than fits; 0 bytes, with or without io.EOF, are the end.
	ReadAt(p []byte, offset int64) (int, error)
	Close() error
}

// Root is the file system below a directory: "/" on a node. Files are read by plain system calls: a file of cgroups can be polled, and
// package os would hand it to the runtime's poller.
func Root(dir string) Files { return root(dir) }

type root string

func (r root) path(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return filepath.Join(string(r), filepath.FromSlash(name)), nil
}

func (r root) Open(name string) (File, error) {
	fd, err := r.open(name, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return descriptor(fd), nil
}

// OpenPeak implements PeakFiles. Kernels before 6.12 refuse to open the file for writing, whoever asks.
func (r root) OpenPeak(name string) (File, error) {
	fd, err := r.open(name, syscall.O_RDWR)
	if err == nil {
		return peakDescriptor{descriptor(fd)}, nil
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return r.Open(name)
	}
	return nil, err
}

func (r root) open(name string, flags int) (fd int, err error) {
	path, err := r.path(name)
	if err != nil {
		return 0, err
	}
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return 0, fmt.Errorf("open %s: %w", path, err)
		}
	}
}

func (r root) Identity(dir string) (uint64, error) {
	path, err := r.path(dir)
	if err != nil {
		return 0, err
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return stat.Ino, nil
}

// descriptor is an open file by its number.
type descriptor int

func (d descriptor) ReadAt(p []byte, offset int64) (int, error) {
	for {
		n, err := syscall.Pread(int(d), p, offset)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

func (d descriptor) Close() error { return syscall.Close(int(d)) }

// peakDescriptor is a memory.peak that is open for writing too.
type peakDescriptor struct{ descriptor }

// Restart implements PeakFile: whatever is written begins the peak anew, for this descriptor alone.
func (d peakDescriptor) Restart() error {
	for {
		_, err := syscall.Pwrite(int(d.descriptor), []byte("0\n"), 0)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// shape says how the kernel gives a file out.
type shape uint8

const (
	record  shape = iota // as one record: a read that does not fill the buffer has all of it
	records              // as many, a page at a time: to be read to its end
	prefix               // as one, of which the beginning is enough
)

// readInto reads a file into the buffer from its beginning.
func readInto(f File, buffer []byte, s shape) ([]byte, error) {
	length := 0
	for length < len(buffer) {
		n, err := f.ReadAt(buffer[length:], int64(length))
		length += n
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case n == 0 || s != records || err != nil:
			return buffer[:length], nil //nolint:nilerr // io.EOF is the end, not an error
		}
	}
	return buffer[:length], nil
}

// reasonOf says in our words why the kernel refused.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Denied
	case errors.Is(err, fs.ErrNotExist):
		return Absent
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ESRCH):
		return Gone
	case errors.Is(err, syscall.EOPNOTSUPP):
		return Unsupported
	case errors.Is(err, fs.ErrInvalid):
		return BadPath
	}
	return Failed
}
