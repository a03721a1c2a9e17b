package daemon

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	// maxLogLines bounds the lines that wait to be written.
	maxLogLines = 1024
	// maxLogFlush bounds how long the end of the process waits for them.
	maxLogFlush = 200 * time.Millisecond
)

// stderr is where the log goes.
var stderr = newLogWriter(os.Stderr)

// logWriter writes lines beside those who log. The runtime copies a container's output to a disk; if that does not answer, the pipe is full before long,
// and whoever writes to it stands still. Lines for which there is no room are dropped and counted.
type logWriter struct {
	lines   chan []byte
	dropped atomic.Uint64
	waiting atomic.Int64
}

func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{lines: make(chan []byte, maxLogLines)}
	go func() {
		for line := range w.lines {
			if n := w.dropped.Swap(0); n > 0 {
				_, _ = fmt.Fprintf(out, "hilbertd: %d lines of the log were dropped: nobody read them\n", n) // nobody to tell
			}
			_, _ = out.Write(line)
			w.waiting.Add(-1)
		}
	}()
	return w
}

// Write implements io.Writer. It never waits.
func (w *logWriter) Write(line []byte) (int, error) {
	w.waiting.Add(1)
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
		w.waiting.Add(-1)
		w.dropped.Add(1)
	}
	return len(line), nil
}

// flush waits until what was logged is written, if somebody reads it.
func (w *logWriter) flush() {
	for end := time.Now().Add(maxLogFlush); w.waiting.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
