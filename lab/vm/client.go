package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hilbert.dev/hilbert/lab/connect"
	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// requestTimeout bounds a request for which the caller's context sets no limit.
	requestTimeout = 2 * time.Minute
	// tellTime is kept back from a command's time limit, so that the guest can still send the output of a command that did not end.
	tellTime = 5 * time.Second
)

// client speaks to the guest's first process.
type client struct {
	base string
	http *http.Client
}

func newClient(address string) client { return client{base: "http://" + address, http: &http.Client{}} }

// Dial connects to an address that the guest reaches, such as that of one of its pods.
func (c client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		return nil, fmt.Errorf("the guest: %w", err)
	}
	return connect.Dial(ctx, to, address)
}

// Result is what a command in the guest said, and its exit status: 128 plus the signal for one that was killed.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// Err is nil for a command that ended well, and else says how it did not.
func (r Result) Err() error {
	if r.Status == 0 {
		return nil
	}
	return fmt.Errorf("status %d: %s", r.Status, strings.TrimSpace(r.Stderr+r.Stdout))
}

// Exec runs a command in the guest to its end, in the cgroup of what serves there: the root, or a unit of systemd's. An exit status that is
// not 0 is no error of Exec's. It is killed (status 137) shortly before ctx ends, or two minutes are over where ctx has no deadline. An error
// says that it was not run, or that the guest does not answer.
func (c client) Exec(ctx context.Context, argv ...string) (Result, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	request := wire.ExecRequest{Argv: argv, TimeoutMS: max(1, max(left/2, left-tellTime).Milliseconds())}
	var answer wire.ExecAnswer
	if err := c.json(ctx, http.MethodPost, wire.PathExec, request, &answer); err != nil {
		return Result{}, fmt.Errorf("run %s in the guest: %w", strings.Join(argv, " "), err)
	}
	return Result{Stdout: string(answer.Stdout), Stderr: string(answer.Stderr), Status: answer.Status}, nil
}

// Shell runs a script in the guest and returns what it wrote to standard output; an exit status that is not 0 is an error.
func (c client) Shell(ctx context.Context, script string) (string, error) {
	got, err := c.Exec(ctx, "/bin/sh", "-c", script)
	if err == nil {
		err = got.Err()
	}
	if err != nil {
		return got.Stdout, fmt.Errorf("%s: %w", script, err)
	}
	return got.Stdout, nil
}

// ReadFile reads one file. The error is fs.ErrNotExist where there is none.
func (c client) ReadFile(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	if err := c.do(ctx, http.MethodGet, wire.PathFile+"?path="+url.QueryEscape(path), nil, &out); err != nil {
		return "", fmt.Errorf("read %s in the guest: %w", path, err)
	}
	return out.String(), nil
}

// Field reads one file without the white space around what it says.
func (c client) Field(ctx context.Context, path string) (string, error) {
	text, err := c.ReadFile(ctx, path)
	return strings.TrimSpace(text), err
}

// ReadFiles reads, in one request, all files that match any of the patterns (as in path.Match), by path. Files that vanish are left out.
func (c client) ReadFiles(ctx context.Context, globs ...string) (map[string]string, error) {
	files := map[string]string{}
	if err := c.json(ctx, http.MethodPost, wire.PathFiles, wire.FilesRequest{Globs: globs}, &files); err != nil {
		return nil, fmt.Errorf("read %s in the guest: %w", strings.Join(globs, " "), err)
	}
	return files, nil
}

// ReadDir lists a directory.
func (c client) ReadDir(ctx context.Context, path string) ([]wire.Entry, error) {
	var entries []wire.Entry
	if err := c.json(ctx, http.MethodGet, wire.PathDir+"?path="+url.QueryEscape(path), nil, &entries); err != nil {
		return nil, fmt.Errorf("list %s in the guest: %w", path, err)
	}
	return entries, nil
}

// WriteFile makes or replaces a file whole, with its directories; a running executable may be replaced too. Below /sys and /proc it is one
// write to the file that is there.
func (c client) WriteFile(ctx context.Context, path string, data io.Reader, mode fs.FileMode) error {
	query := wire.PathFile + "?path=" + url.QueryEscape(path) + "&mode=" + strconv.FormatUint(uint64(mode.Perm()), 8)
	if err := c.do(ctx, http.MethodPut, query, data, io.Discard); err != nil {
		return fmt.Errorf("write %s in the guest: %w", path, err)
	}
	return nil
}

// WriteString is WriteFile of a text, with mode 0644.
func (c client) WriteString(ctx context.Context, path, text string) error {
	return c.WriteFile(ctx, path, strings.NewReader(text), 0o644)
}

// Remove removes a file, or a directory with all that is in it.
func (c client) Remove(ctx context.Context, path string) error {
	if err := c.do(ctx, http.MethodDelete, wire.PathFile+"?path="+url.QueryEscape(path), nil, io.Discard); err != nil {
		return fmt.Errorf("remove %s in the guest: %w", path, err)
	}
	return nil
}

// Tar writes a tar of the small files and the links below the directories to w. What cannot be read is left out.
func (c client) Tar(ctx context.Context, w io.Writer, dirs ...string) error {
	if err := c.do(ctx, http.MethodGet, wire.PathTar+"?"+url.Values{"path": dirs}.Encode(), nil, w); err != nil {
		return fmt.Errorf("tar %s in the guest: %w", strings.Join(dirs, " "), err)
	}
	return nil
}

// Signal sends a signal to all processes whose executable has the base name, and says which they were. None is fs.ErrNotExist.
func (c client) Signal(ctx context.Context, name string, signal syscall.Signal) (pids []int, err error) {
	err = c.json(ctx, http.MethodPost, wire.PathSignal, wire.SignalRequest{Name: name, Signal: int(signal)}, &pids)
	if err != nil {
		return nil, fmt.Errorf("signal %s in the guest: %w", name, err)
	}
	return pids, nil
}

// SignalPID sends a signal to one process.
func (c client) SignalPID(ctx context.Context, pid int, signal syscall.Signal) error {
	err := c.json(ctx, http.MethodPost, wire.PathSignal, wire.SignalRequest{PID: pid, Signal: int(signal)}, nil)
	if err != nil {
		return fmt.Errorf("signal process %d in the guest: %w", pid, err)
	}
	return nil
}

// ready asks whether the guest is there, and does not wait long for the answer: before the guest listens, QEMU takes connections for it.
func (c client) ready(ctx context.Context) (ready wire.Ready, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = c.json(ctx, http.MethodGet, wire.PathReady, nil, &ready)
	return ready, err
}

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer after %s", requestTimeout))
}

func (c client) json(ctx context.Context, method, path string, request, answer any) error {
	var body io.Reader
	if request != nil {
		data, err := json.Marshal(request)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	var out bytes.Buffer
	if err := c.do(ctx, method, path, body, &out); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(out.Bytes(), answer)
}

func (c client) do(ctx context.Context, method, path string, body io.Reader, out io.Writer) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // the status says enough
		if response.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%s: %w", strings.TrimSpace(string(text)), fs.ErrNotExist)
		}
		return errors.New(strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(out, response.Body)
	return err
}
