//go:build !linux

package gpu

import "errors"

// KernelLog is of Linux alone.
func KernelLog(string) ([]Xid, error) {
	return nil, errors.New("the kernel's log is read on Linux alone")
}
