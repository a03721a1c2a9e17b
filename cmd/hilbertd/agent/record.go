package agent

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// maxRecord bounds the file that records the laws' ticks. It holds some hours.
const maxRecord = 64 << 20

var (
	errRecordFull = errors.New("the record is full")
	errRecordSlow = errors.New("the disk does not take the record as fast as it is made")
)

// recordFile is a file of bounded size, written beside those who record.
type recordFile struct {
	file  *os.File
	left  int
	lines chan []byte
	done  chan struct{} // closed when all is written
}

const (
	// maxRecordLines bounds the ticks that wait for the disk.
	maxRecordLines = 64
	// maxRecordFlush bounds how long the end of the agent waits for them.
	maxRecordFlush = 200 * time.Millisecond
)

// openRecord creates the file that node.lending.record names. Each start overwrites it.
func openRecord(path string) (*recordFile, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("node.lending.record: %w", err)
	}
	r := &recordFile{file: file, left: maxRecord, lines: make(chan []byte, maxRecordLines), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for line := range r.lines {
			_, _ = file.Write(line) // a record that ends early says so itself
		}
	}()
	return r, nil
}

// Write implements io.Writer. A line that does not fit whole is not written.
func (r *recordFile) Write(p []byte) (int, error) {
	if len(p) > r.left {
		return 0, errRecordFull
	}
	select {
	case r.lines <- append([]byte(nil), p...):
		r.left -= len(p)
		return len(p), nil
	default:
		return 0, errRecordSlow
	}
}

// Close writes what waits, if the disk takes it.
func (r *recordFile) Close() error {
	close(r.lines)
	select {
	case <-r.done:
		return r.file.Close()
	case <-time.After(maxRecordFlush):
		return errRecordSlow
	}
}
