package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"hilbert.dev/hilbert/lab/report"
)

const (
	// lineEvery is how often progress prints a line where it cannot rewrite the last one.
	lineEvery = 5 * time.Second
	// rewriteEvery is how often the line of a terminal changes.
	rewriteEvery = 200 * time.Millisecond
	// barWidth is the width of the bar of bound pods, in letters.
	barWidth = 24
	// rateWindow is the time over which the shown rate is taken.
	rateWindow = 2 * time.Second
)

// progress shows people how a run is going. Several goroutines may use it.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	dirty    bool // a line is to be rewritten or ended
	last     time.Duration
	window   []report.Sample
}

func newProgress(out io.Writer, terminal bool) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, terminal: terminal, last: -time.Hour}
}

// say prints a line of its own.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Write makes a progress a log's destination: whole lines between the rewritten ones.
func (p *progress) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if _, err := p.out.Write(bytes.TrimRight(lines, "\n")); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(p.out, "\n"); err != nil {
		return 0, err
	}
	return len(lines), nil
}

func (p *progress) clear() {
	if p.dirty {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.dirty = false
	}
}

// end leaves the last state standing.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		fmt.Fprintln(p.out)
		p.dirty = false
	}
}

// show prints the state, as often as suits the destination. total is how many pods there will be.
func (p *progress) show(now report.Sample, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window = append(p.window, now)
	for len(p.window) > 2 && now.At-p.window[0].At > rateWindow {
		p.window = p.window[1:]
	}
	every := lineEvery
	if p.terminal {
		every = rewriteEvery
	}
	if now.At-p.last < every {
		return
	}
	p.last = now.At
	if p.terminal {
		p.clear()
		fmt.Fprint(p.out, p.bar(now.Bound, total), p.line(now, total))
		p.dirty = true
		return
	}
	fmt.Fprintln(p.out, p.line(now, total))
}

func (p *progress) bar(done, total int) string {
	full := 0
	if total > 0 {
		full = min(barWidth*done/total, barWidth)
	}
	return "  " + strings.Repeat("━", full) + strings.Repeat("┄", barWidth-full)
}

func (p *progress) line(now report.Sample, total int) string {
	rate := 0.0
	if past := p.window[0]; now.At > past.At {
		rate = float64(now.Bound-past.Bound) / (now.At - past.At).Seconds()
	}
	line := fmt.Sprintf("  %3.0f s  bound %d of %d", now.At.Seconds(), now.Bound, total)
	if now.Created < total {
		line += fmt.Sprintf(" (%d created)", now.Created)
	}
	line += fmt.Sprintf(" · waiting %d · running %d · succeeded %d", now.Pending, now.Running, now.Succeeded)
	if rate > 0 {
		line += fmt.Sprintf(" · %.0f pods/s", rate)
	}
	return line
}
