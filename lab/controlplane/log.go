package controlplane

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/klog/v2"
)

// partLog is where the parts log. klog is one for the whole process, so a control plane takes it over while it runs.
type partLog struct {
	mu   sync.Mutex
	w    io.Writer // nil once closed
	file *os.File
}

// startLog sends klog to w, or to a file at path where w is nil.
func startLog(w io.Writer, path string) (*partLog, error) {
	l := &partLog{w: w}
	if w == nil {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the log %s: %w", path, err)
		}
		l.file, l.w = file, file
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	// Errors of the parts belong into their log as well, not between the lines that the user reads.
	// Without one_output a warning would stand there twice.
	for name, value := range map[string]string{
		"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true",
	} {
		if err := flags.Set(name, value); err != nil {
			return nil, fmt.Errorf("set klog's %s: %w", name, err)
		}
	}
	klog.SetOutput(l)
	return l, nil
}

// Write drops what comes after close, as parts that upstream never ends still log, and what the disk has no room for: loggers would
// complain on standard error, line by line.
func (l *partLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return len(p), nil
	}
	_, _ = l.w.Write(p)
	return len(p), nil
}

func (l *partLog) close() error {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = nil
	if l.file == nil {
		return nil
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}

func (l *partLog) path() string {
	if l.file == nil {
		return ""
	}
	return l.file.Name()
}
