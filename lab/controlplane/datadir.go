package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// longestSocketPath is the longest path that the kernel takes for a Unix socket, less its terminator and room for the name.
const longestSocketPath = 107 - len("/etcd-http.sock")

// dataDir is where a control plane keeps its state: the etcd data, the CA and certificates, sockets and the log.
type dataDir struct {
	path      string
	temporary bool
	// sockets is a directory whose path is short enough for a Unix socket; it is path itself where that is.
	sockets string
	lock    *os.File
}

// openDataDir makes path ("" for a temporary one) and takes its lock, so that two control planes never share an etcd.
func openDataDir(path string) (*dataDir, error) {
	d := &dataDir{path: path}
	if path == "" {
		temporary, err := os.MkdirTemp("", "hilbert-lab-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary data directory: %w (set TMPDIR, or name a directory)", err)
		}
		d.path, d.temporary = temporary, true
	}
	absolute, err := filepath.Abs(d.path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	d.path = absolute
	for _, sub := range []string{d.path, d.certificates(), d.etcd()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("data directory %s cannot be made: %w (name one that is writable)", d.path, err)
		}
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	d.sockets = d.path
	if len(d.path) > longestSocketPath {
		if d.sockets, err = os.MkdirTemp("", "hilbert-lab-"); err != nil {
			_ = d.lock.Close()
			return nil, fmt.Errorf("make a directory for sockets (the path of %s is too long for one): %w", d.path, err)
		}
	}
	return d, nil
}

func (d *dataDir) takeLock() error {
	lock, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w (name another one)", d.path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("data directory %s is in use by another lab: stop that one or name another directory", d.path)
		}
		return fmt.Errorf("lock data directory %s: %w", d.path, err)
	}
	d.lock = lock
	return nil
}

func (d *dataDir) certificates() string { return filepath.Join(d.path, "pki") }
func (d *dataDir) etcd() string         { return filepath.Join(d.path, "etcd") }
func (d *dataDir) logFile() string      { return filepath.Join(d.path, "controlplane.log") }

// close gives the lock back and removes what was temporary.
func (d *dataDir) close() error {
	var errs []error
	if d.sockets != d.path {
		errs = append(errs, os.RemoveAll(d.sockets))
	}
	if d.temporary {
		errs = append(errs, os.RemoveAll(d.path))
	}
	errs = append(errs, d.lock.Close())
	return errors.Join(errs...)
}
