package store

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// startPostgreSQL starts a PostgreSQL server with a database of its own, which only takes connections on a Unix socket. It returns kine's name for it.
// The server refuses to run as root, so that root lets the distribution's user postgres run it.
func (s *Server) startPostgreSQL(ctx context.Context, o Options) (endpoint string, err error) {
	programs, err := postgreSQL()
	if err != nil {
		return "", err
	}
	// Another user has to reach it, so it is not below a directory of ours.
	dir, err := os.MkdirTemp("", "hilbert-pg-")
	if err != nil {
		return "", fmt.Errorf("make a directory for PostgreSQL: %w", err)
	}
	s.remove = append(s.remove, dir)
	as, err := unprivileged(dir)
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	initialise := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--pgdata", data, "--username", "kine", "--no-sync",
		"--encoding", "UTF8", "--locale", "C", "--auth-local", "trust", "--auth-host", "reject") // who may enter dir may connect
	initialise.SysProcAttr, initialise.Dir = as, dir
	if out, err := initialise.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a PostgreSQL database in %s: %w: %s", data, err, out)
	}
	command := exec.Command(filepath.Join(programs, "postgres"), "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir,
		"-c", "max_connections=200", "-c", "fsync=off") // what is thrown away at the end need not survive a power cut
	command.Dir, command.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as.Credential}
	if err := s.start(command, o, syscall.SIGINT); err != nil { // its fast shutdown
		return "", err
	}
	err = s.await(ctx, "PostgreSQL", func() bool {
		return exec.CommandContext(ctx, filepath.Join(programs, "pg_isready"), "--host", dir).Run() == nil
	})
	return "postgres://kine@/kine?" + url.Values{"host": {dir}}.Encode(), err
}

// postgreSQL is the directory of PostgreSQL's programs: where the PATH has them, or Debian puts them.
func postgreSQL() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("%w: no initdb of PostgreSQL (on Debian: apt-get install postgresql)", ErrAbsent)
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged gives a directory to a user who is not root, and says how to run as that one: the own user if that is not root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w (on Debian: apt-get install postgresql)", err)
	}
	uid, err := strconv.ParseUint(other.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user postgres has the number %q: %w", other.Uid, err)
	}
	gid, err := strconv.ParseUint(other.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group of user postgres has the number %q: %w", other.Gid, err)
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, fmt.Errorf("give %s to user postgres: %w", dir, err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
