package shrink

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// gaugeWindow is the least time over which pressure is judged: a shorter one is noise.
	gaugeWindow = 100 * time.Millisecond
	// gaugeStale is the longest: over a longer one a pressure that has just begun would not show. It only begins a new one.
	gaugeStale = 2 * time.Second
	// gaugeHold is how long pressure counts after it was seen, so that what is stopped does not begin again at once.
	gaugeHold = 2 * time.Second
)

// Gauge tells whether some of a set of cgroups feels memory pressure now: sooner than the kernel's averages, which take seconds. It is what New's
// halt is made for. Several goroutines may use it.
type Gauge struct {
	kernel Kernel

	mu    sync.Mutex
	limit float64
	seen  map[string]uint64 // stalled time by cgroup, in microseconds; 0: not read yet
	at    time.Time         // when
	until time.Time         // pressure counts until then
}

// NewGauge returns a Gauge that finds a share of the time, from 0 to 1, high in which some task waits for memory.
func NewGauge(k Kernel, limit float64) *Gauge {
	return &Gauge{kernel: k, limit: limit, seen: make(map[string]uint64)}
}

// SetLimit changes the share.
func (g *Gauge) SetLimit(limit float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
}

// Watch says which cgroups count from now on: the online pods'.
func (g *Gauge) Watch(cgroups []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := make(map[string]uint64, len(cgroups))
	for _, c := range cgroups {
		seen[c] = g.seen[c]
	}
	g.seen = seen
}

// High reports whether one of them feels pressure. A cgroup that is gone feels none; one whose pressure cannot be read counts as one that does.
func (g *Gauge) High() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if window := now.Sub(g.at); window >= gaugeWindow {
		if g.read(window) {
			g.until = now.Add(gaugeHold)
		}
		g.at = now
	}
	return now.Before(g.until)
}

// read notes all cgroups' stalled time, and reports whether that of one has grown by more than the limit.
func (g *Gauge) read(window time.Duration) (high bool) {
	for cgroup, before := range g.seen {
		total, err := g.stalled(cgroup)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
			g.seen[cgroup] = 0
			continue
		}
		if err != nil {
			high = true
			continue
		}
		g.seen[cgroup] = total
		if window < gaugeStale && before > 0 && total > before && float64(total-before) > g.limit*float64(window.Microseconds()) {
			high = true
		}
	}
	return high
}

// stalled is how long some task has waited since the cgroup was made, in microseconds, and at least 1.
func (g *Gauge) stalled(cgroup string) (uint64, error) {
	text, err := g.kernel.Read(cgroup + "/memory.pressure")
	if err != nil {
		return 0, err
	}
	some, _, _ := strings.Cut(text, "\n")
	_, total, found := strings.Cut(some, "total=")
	var n uint64
	if _, err := fmt.Sscan(total, &n); err != nil || !found || !strings.HasPrefix(some, "some ") {
		return 0, fmt.Errorf("%s/memory.pressure says %q", cgroup, text)
	}
	return max(n, 1), nil
}
