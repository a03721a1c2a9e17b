package daemon

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// A log that nobody reads delays nobody; what was dropped is counted.
func TestLogThatNobodyReads(t *testing.T) {
	in, out := io.Pipe()
	w := newLogWriter(out)
	const lines = 3 * maxLogLines
	began := time.Now()
	for i := range lines {
		_, _ = fmt.Fprintf(w, "line %d\n", i)
	}
	w.flush()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d lines took %v", lines, took)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = fmt.Fprintln(w, "the last")
	}()
	read, dropped := 0, 0
	for scanner := bufio.NewScanner(in); scanner.Scan() && scanner.Text() != "the last"; {
		var more int
		if _, err := fmt.Sscanf(scanner.Text(), "hilbertd: %d lines", &more); err == nil {
			dropped += more
		} else if strings.HasPrefix(scanner.Text(), "line ") {
			read++
		}
	}
	if read < maxLogLines || read+dropped != lines {
		t.Errorf("%d lines were read and %d dropped, of %d", read, dropped, lines)
	}
}
