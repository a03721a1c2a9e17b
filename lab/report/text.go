package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxTextReasons bounds the reasons that the text lists; JSON has them all.
const maxTextReasons = 12

// WriteText writes the summary for a terminal.
func (s *Summary) WriteText(w io.Writer) error {
	var b strings.Builder
	if s.Colocation != nil {
		s.Colocation.text(&b)
	}
	fmt.Fprintf(&b, "%s: %s on %s in %s\n", s.Title, plural(s.PodsCreated, "pod"), plural(s.Nodes, "node"), formatSeconds(s.Seconds))
	if s.Partial != "" {
		fmt.Fprintf(&b, "PARTIAL: %s\n", s.Partial)
	}
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("pods bound", "%s of %s", count(s.PodsBound), count(s.PodsCreated))
	if s.PodsPerSecond != nil {
		line("binding rate", "%s pods/s (best second %s)", count(int(*s.PodsPerSecond+.5)), count(s.BestPodsPerSecond))
	}
	if q := s.CreationToBinding; q != nil {
		line("creation to binding", "p50 %s · p90 %s · p99 %s · max %s", formatMillis(q.P50), formatMillis(q.P90), formatMillis(q.P99), formatMillis(q.Max))
	}
	for _, resource := range []struct {
		name  string
		share *Share
	}{{"CPU allocated", s.CPU}, {"memory allocated", s.Memory}, {"GPU allocated", s.GPU}} {
		if v := resource.share; v != nil {
			line(resource.name, "%.1f %% at the peak (online %.1f, offline %.1f) · %.1f %% at the end", v.Peak, v.Online, v.Offline, v.Final)
		}
	}
	line("at the end", "%s running · %s succeeded · %s failed · %s pending",
		count(s.PodsRunning), count(s.PodsSucceeded), count(s.PodsFailed), count(s.PodsPending))
	s.textUnplaced(&b)
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "\nnote: %s", note)
	}
	if len(s.Notes) > 0 {
		b.WriteByte('\n')
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (s *Summary) textUnplaced(b *strings.Builder) {
	if len(s.Unplaced) == 0 {
		return
	}
	total := 0
	for _, u := range s.Unplaced {
		total += u.Pods
	}
	fmt.Fprintf(b, "\n  without a node: %s\n", plural(total, "pod"))
	for i, u := range s.Unplaced {
		if i == maxTextReasons {
			fmt.Fprintf(b, "  … and %s more (-o json lists them)\n", plural(len(s.Unplaced)-i, "reason"))
			return
		}
		fmt.Fprintf(b, "  %6s  %s: %s\n          for example %s\n", count(u.Pods), u.reason(), u.message(), u.Example)
	}
}

func (u Unplaced) reason() string {
	if u.Reason == "" {
		return "NoCondition"
	}
	return u.Reason
}

func (u Unplaced) message() string {
	if u.Message == "" {
		return "the scheduler has said nothing about it yet"
	}
	return u.Message
}

// count writes 12345 as "12,345".
func count(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// formatMillis writes a wait with the unit that suits it: "0.8 ms", "38 ms", "1.24 s", "2 min 5 s".
func formatMillis(ms float64) string {
	switch {
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 9_995:
		return fmt.Sprintf("%.2f s", ms/1e3)
	case ms < 99_950:
		return fmt.Sprintf("%.1f s", ms/1e3)
	default:
		return formatSeconds(ms / 1e3)
	}
}

// formatSeconds writes a time on the clock of the run: "8.5 s", "42 s", "1 min 42 s", "2 h 3 min".
func formatSeconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.3g s", s)
	}
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	h, m, sec := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0 && sec > 0:
		return fmt.Sprintf("%d min %d s", m, sec)
	case m > 0:
		return fmt.Sprintf("%d min", m)
	default:
		return fmt.Sprintf("%d s", sec)
	}
}
