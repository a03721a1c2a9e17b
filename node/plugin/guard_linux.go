package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// guarded reports whether a directory is one that only its owner may use.
func guarded(info fs.FileInfo, owner uint32) error {
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("it is %v: want a directory of mode 0700", info.Mode())
	}
	_, err := ownedBy(info, owner)
	return err
}

// owned reports whether a file is a socket of the owner, and its inode.
func owned(info fs.FileInfo, owner uint32) (uint64, error) {
	if info.Mode().Type() != fs.ModeSocket {
		return 0, fmt.Errorf("it is no socket (%v)", info.Mode().Type())
	}
	return ownedBy(info, owner)
}

func ownedBy(info fs.FileInfo, owner uint32) (uint64, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("its owner is not known")
	}
	if stat.Uid != owner {
		return 0, fmt.Errorf("it belongs to user %d: want user %d", stat.Uid, owner)
	}
	return stat.Ino, nil
}

// peer reports whether the process that listens at the other end is the owner's. (SO_PEERCRED: as it was when it began to listen.)
func peer(conn net.Conn, owner uint32) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("it is no unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask who listens: %w", failed)
	}
	if who.Uid != owner {
		return fmt.Errorf("a process of user %d listens: want user %d", who.Uid, owner)
	}
	return nil
}
