package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxOutput bounds what a run may print: the lists of clocks take 120 KB for a GPU.
	maxOutput = 8 << 20
	// runTimeout is for how long a run is waited for. Without persistence mode each run wakes every GPU, which takes seconds.
	runTimeout = 30 * time.Second
)

var errBusy = errors.New("nvidia-smi still hangs from an earlier run")

// Command runs a program as nvidia-smi. It gives up after 30 seconds, and also when the process cannot even be killed, as when it hangs in the
// kernel over a broken GPU. No other run is started before that one is gone.
func Command(name string, before ...string) func(ctx context.Context, arguments ...string) (Output, error) {
	free := make(chan struct{}, 1)
	return func(ctx context.Context, arguments ...string) (Output, error) {
		select {
		case free <- struct{}{}:
		default:
			return Output{}, errBusy
		}
		ctx, cancel := context.WithTimeout(ctx, runTimeout)
		defer cancel()
		type result struct {
			out Output
			err error
		}
		done := make(chan result, 1)
		go func() {
			out, err := run(ctx, name, append(slices.Clip(before), arguments...))
			<-free
			done <- result{out, err}
		}()
		select {
		case r := <-done:
			return r.out, r.err
		case <-ctx.Done():
			return Output{}, fmt.Errorf("nvidia-smi gives no answer: %w", ctx.Err())
		}
	}
}

func run(ctx context.Context, name string, arguments []string) (Output, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Stdout, cmd.Stderr = &bounded{&stdout}, &bounded{&stderr}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ctx.Err() == nil:
		return Output{Stdout: stdout.Bytes(), Stderr: stderr.String(), Code: ended.ExitCode()}, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return Output{}, fmt.Errorf("%w: %w", ErrNoDriver, err)
	case err != nil:
		return Output{}, fmt.Errorf("run nvidia-smi: %w", err)
	}
	return Output{Stdout: stdout.Bytes(), Stderr: stderr.String()}, nil
}

// bounded takes no more than maxOutput.
type bounded struct{ *bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}

// Spool finds what nvidia-smi printed in a directory where another process keeps it: the pod of deploy/mps.yaml, which has the driver's libraries
// and devices, so the agent needs neither. For each question there are two files, the output and NAME.code, which is written last and whose age
// counts: query.xml, query-ADDRESS.xml, list.txt and topology.txt. An answer that is older than maxAge is none.
func Spool(dir fs.FS, maxAge time.Duration, now func() time.Time) func(ctx context.Context, arguments ...string) (Output, error) {
	return func(_ context.Context, arguments ...string) (Output, error) {
		name, err := spooled(arguments)
		if err != nil {
			return Output{}, err
		}
		info, err := fs.Stat(dir, name+".code")
		if err != nil {
			return Output{}, fmt.Errorf("the driver's answer is not there: %w", err)
		}
		if age := now().Sub(info.ModTime()); age > maxAge {
			return Output{}, fmt.Errorf("the driver's answer is %s old", age.Round(time.Second))
		}
		text, err := fs.ReadFile(dir, name+".code")
		if err != nil {
			return Output{}, fmt.Errorf("the driver's answer: %w", err)
		}
		code, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return Output{}, fmt.Errorf("the driver's answer: %w", err)
		}
		out, err := fs.ReadFile(dir, name)
		if err != nil {
			return Output{}, fmt.Errorf("the driver's answer: %w", err)
		}
		return Output{Stdout: out, Code: code}, nil
	}
}

func spooled(arguments []string) (string, error) {
	switch question := strings.Join(arguments, " "); {
	case question == "-q -x":
		return "query.xml", nil
	case question == "-L":
		return "list.txt", nil
	case question == "topo -m":
		return "topology.txt", nil
	case len(arguments) == 4 && strings.HasPrefix(question, "-q -x -i "):
		return "query-" + arguments[3] + ".xml", nil
	}
	return "", fmt.Errorf("the recording has no answer to nvidia-smi %q", arguments)
}
