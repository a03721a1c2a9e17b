package gpu

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A record of /dev/kmsg is "6,1234,5678901,-;text", the third number being microseconds since the kernel started. The driver names no function.
var xidRecord = regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;NVRM: Xid \(PCI:([0-9A-Fa-f:]+)\): (\d+)`)

// ParseXids reads the faults of GPUs out of records of /dev/kmsg, one a line. All else is passed over.
func ParseXids(records string) (out []Xid) {
	for line := range strings.Lines(records) {
		parts := xidRecord.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		at, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			continue
		}
		code, err := strconv.Atoi(parts[3])
		if err != nil {
			continue
		}
		if address, err := canonical(parts[2] + ".0"); err == nil {
			out = append(out, Xid{Address: address, Code: code, At: time.Duration(at) * time.Microsecond})
		}
	}
	return out
}
