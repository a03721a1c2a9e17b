package logpages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Host opens a directory of this machine.
func Host(directory string) (Tree, error) {
	fd, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	return hostTree{fd}, nil
}

type hostTree struct{ fd int }

func (t hostTree) Close() error { return unix.Close(t.fd) }

// maxTries is how often a path is resolved that changes meanwhile: who renames without end must not hold the agent up.
const maxTries = 8

// at opens what lies below the tree, without following a link or crossing a mount.
func (t hostTree) at(path string, flags uint64) (int, error) {
	for range maxTries {
		fd, err := unix.Openat2(t.fd, path, &unix.OpenHow{
			Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // somebody renames what is on the path
			continue
		case errors.Is(err, unix.ENOENT):
			return -1, ErrGone
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR):
			return -1, ErrRefused
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return -1, fmt.Errorf("openat2: %w: it needs Linux 5.6, and a seccomp profile that allows it", err)
		}
		return -1, fmt.Errorf("open what lies in it: %w", err) // no name: a tenant chose it, and each would be told of anew
	}
	return -1, ErrGone
}

// own is the path by which a process reaches what it has open.
func own(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Entries implements Tree.
func (t hostTree) Entries(path string, most int) ([]fs.DirEntry, error) {
	fd, err := t.at(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), own(fd)) // by this name the kind of an entry is asked for where the file system does not say it
	entries, err := dir.ReadDir(most)
	var named *fs.PathError
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case errors.As(err, &named):
		err = fmt.Errorf("list what lies in it: %w", named.Err)
	}
	return entries, errors.Join(err, dir.Close())
}

// Open implements Tree. What lies at the path is looked at before it is opened: opening a device, or a pipe, may do something.
func (t hostTree) Open(path string) (File, error) {
	looked, err := t.at(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(looked) }()
	var stat unix.Stat_t
	if err := unix.Fstat(looked, &stat); err != nil {
		return nil, fmt.Errorf("look at a file in it: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrRefused
	}
	fd, err := unix.Open(own(looked), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EAGAIN): // its owner has a lease on it
		return nil, ErrRefused
	case err != nil:
		return nil, fmt.Errorf("open a file in it: %w", err)
	}
	return hostFile{fd}, nil
}

type hostFile struct{ fd int }

func (f hostFile) Close() error { return unix.Close(f.fd) }

// Size implements File.
func (f hostFile) Size() (int64, error) {
	var stat unix.Stat_t
	err := unix.Fstat(f.fd, &stat)
	return stat.Size, err
}

// Data implements File. A file system that knows no holes has data everywhere.
func (f hostFile) Data(offset int64) (int64, bool) {
	begin, err := unix.Seek(f.fd, offset, unix.SEEK_DATA)
	switch {
	case err == nil:
		return begin, true
	case errors.Is(err, unix.ENXIO):
		return 0, false
	}
	return offset, true
}

// Cached implements File, by cachestat, which kernels have from 6.5 on.
func (f hostFile) Cached(offset, length int64) (int64, bool) {
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(f.fd), &unix.CachestatRange{Off: uint64(offset), Len: uint64(length)}, &stat, 0); err != nil { //nolint:gosec // none is negative
		return 0, false
	}
	return int64(stat.Cache) * int64(os.Getpagesize()), true //nolint:gosec // a part of the memory
}

// Drop implements File.
func (f hostFile) Drop(offset, length int64) error {
	if err := unix.SyncFileRange(f.fd, offset, length, unix.SYNC_FILE_RANGE_WRITE); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("begin to write: %w", err)
	}
	if err := unix.Fadvise(f.fd, offset, length, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop pages: %w", err)
	}
	return nil
}
