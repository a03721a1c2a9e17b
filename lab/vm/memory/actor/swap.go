package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// The kernel's format of a swap area: one page, with the version and the number of the last page at 1024 and a name at its end.
const (
	pageSize              = 4096
	versionAt, lastPageAt = 1024, 1028
	swapName              = "SWAPSPACE2"
)

// swapOn makes a file of the root disk swap. Its blocks are all written: the kernel takes no holes.
func swapOn(path, mebibytes string) error {
	n, err := numbers(mebibytes)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, n[0]*mib); err != nil {
		return errors.Join(fmt.Errorf("allocate: %w", err), file.Close())
	}
	header := make([]byte, pageSize)
	binary.LittleEndian.PutUint32(header[versionAt:], 1)
	binary.LittleEndian.PutUint32(header[lastPageAt:], uint32(n[0]*mib/pageSize-1)) //nolint:gosec // a few thousand
	copy(header[pageSize-len(swapName):], swapName)
	_, err = file.WriteAt(header, 0)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return swap(syscall.SYS_SWAPON, path)
}

func swapOff(path string) error { return errors.Join(swap(syscall.SYS_SWAPOFF, path), os.Remove(path)) }

func swap(call uintptr, path string) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, failed := syscall.Syscall(call, uintptr(unsafe.Pointer(name)), 0, 0); failed != 0 {
		return fmt.Errorf("swap %s: %w", path, failed)
	}
	return nil
}
