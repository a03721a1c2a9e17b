package gpu

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxRecord is more than the kernel gives at once.
	maxRecord = 8 << 10
	// maxRecords bounds one reading: the log is a ring, and it may fill faster than it is read.
	maxRecords = 1 << 17
)

// KernelLog reads the faults of GPUs in the kernel's log as it is now, without waiting for more. name is "/dev/kmsg", which takes CAP_SYSLOG where the
// kernel restricts it.
func KernelLog(name string) ([]Xid, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var records strings.Builder
	buf := make([]byte, maxRecord)
	for range maxRecords {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // records were overwritten before we came to them: go on with the next
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return ParseXids(records.String()), nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if text := string(buf[:n]); strings.Contains(text, "Xid") {
			records.WriteString(text)
		}
	}
	return ParseXids(records.String()), nil
}
