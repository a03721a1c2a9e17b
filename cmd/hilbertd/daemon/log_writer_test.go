package daemon

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A log that nobody reads delays nobody: a writer that waited would wait for ever here. What was dropped is counted.
func TestLogThatNobodyReads(t *testing.T) {
	in, out := io.Pipe()
	w := newLogWriter(out)
	const lines = 3 * maxLogLines
	for i := range lines {
		_, _ = fmt.Fprintf(w, "line %d\n", i)
	}
	w.flush()
	read, dropped := 0, 0
	for scanner := bufio.NewScanner(in); scanner.Scan() && scanner.Text() != "the last"; {
		var more int
		if _, err := fmt.Sscanf(scanner.Text(), "hilbertd: %d lines", &more); err == nil {
			dropped += more
		} else if strings.HasPrefix(scanner.Text(), "line ") {
			if read++; read == 2 { // one was taken since nobody read, so there is room
				_, _ = fmt.Fprintln(w, "the last")
			}
		}
	}
	if read < maxLogLines || read+dropped != lines {
		t.Errorf("%d lines were read and %d dropped, of %d", read, dropped, lines)
	}
}
