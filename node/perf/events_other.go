//go:build !linux

package perf

// Events counts nothing here: perf_event_open is Linux'.
type Events struct{}

// NewEvents returns a Kernel that has no counters.
func NewEvents(_, _ string) *Events { return &Events{} }

// MaxFiles is how many files counters may take: none.
func MaxFiles(int) int { return 0 }

// Files implements Kernel.
func (*Events) Files() int { return 1 }

// Open implements Kernel.
func (*Events) Open(string) ([]Counter, error) { return nil, ErrAbsent }
