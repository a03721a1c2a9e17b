//go:build !linux

package plugin

import (
	"errors"
	"io/fs"
	"net"
)

var errLinux = errors.New("plugins need Linux")

func guarded(fs.FileInfo, uint32) error         { return errLinux }
func owned(fs.FileInfo, uint32) (uint64, error) { return 0, errLinux }
func peer(net.Conn, uint32) error               { return errLinux }
