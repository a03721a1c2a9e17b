package daemon

import (
	"errors"
	"fmt"
	"os"
)

// maxRecord bounds the file that records the laws' ticks. It holds some hours.
const maxRecord = 64 << 20

var errRecordFull = errors.New("the record is full")

// recordFile is a file of bounded size.
type recordFile struct {
	file *os.File
	left int
}

// openRecord creates the file that node.lending.record names. Each start overwrites it.
func openRecord(path string) (*recordFile, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("node.lending.record: %w", err)
	}
	return &recordFile{file, maxRecord}, nil
}

// Write implements io.Writer. A line that does not fit whole is not written.
func (r *recordFile) Write(p []byte) (int, error) {
	if len(p) > r.left {
		return 0, errRecordFull
	}
	r.left -= len(p)
	return r.file.Write(p)
}

func (r *recordFile) Close() error { return r.file.Close() }
