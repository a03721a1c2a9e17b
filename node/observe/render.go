package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/topology"
)

// Render is an observation as text for people. A value that is not Valid shows why: "!gone" is Missing, "1.50~7s" is Stale, "<0" is Reversed.
// "-" is what was not asked for, or has had one reading only.
func (o *Observation) Render() string {
	n := &o.Node
	grid := [][]string{
		{"NODE", "CPU", "SYSTEM", "STEAL", "DELAY", "LOAD1", "MEMORY", "AVAILABLE", "ANON", "CPU-PSI", "MEM-PSI", "IO-PSI"},
		{
			"all", cell(n.CPU.Busy, cores), cell(n.CPU.System, cores), cell(n.CPU.Steal, cores), cell(n.RunDelay, cores), cell(n.Load1, cores),
			cell(n.Memory.Total, amounts), cell(n.Memory.Available, amounts), cell(n.Memory.Anon, amounts),
			cell(n.CPUPressure.Some.Now, percent), cell(n.MemoryPressure.Some.Now, percent), cell(n.IOPressure.Some.Now, percent),
		},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "at %s\n", o.At)
	write(&b, grid)
	grid = [][]string{{"NUMA", "MEMORY", "FREE", "ANON", "FILE", "MISS/S"}}
	for i := range n.NUMANodes {
		z := &n.NUMANodes[i]
		grid = append(grid, []string{
			strconv.Itoa(i), cell(z.Total, amounts), cell(z.Free, amounts), cell(z.Anon, amounts), cell(z.File, amounts), cell(z.Miss, amountsPer),
		})
	}
	write(&b, grid)
	grid = [][]string{{
		"CGROUP", "CPU", "THROTTLED", "DELAY", "CPU-PSI", "MEMORY", "ANON", "FILE", "MEM-PSI", "OOM", "READ/S", "WRITE/S", "IO-PSI", "TASKS", "CPUS",
	}}
	for i := range o.Cgroups {
		grid = append(grid, o.Cgroups[i].row())
	}
	write(&b, grid)
	o.Counts.render(&b)
	return b.String()
}

func (c *CgroupUse) row() []string {
	return []string{
		c.ID, cell(c.CPU.Usage, cores), cell(c.CPU.Throttled, cores), cell(c.CPU.RunDelay, cores), cell(c.CPUPressure.Some.Now, percent),
		cell(c.Memory.Current, amounts), cell(c.Memory.Anon, amounts), cell(c.Memory.File, amounts),
		cell(c.MemoryPressure.Some.Now, percent), cell(c.Memory.OOMKills, plain), cell(c.IO.ReadBytes, amountsPer),
		cell(c.IO.WriteBytes, amountsPer), cell(c.IOPressure.Some.Now, percent), cell(c.Tasks, plain), cell(c.CPUs, topology.CPUSet.String),
	}
}

// render names what went wrong, and nothing else.
func (c *Counts) render(b *strings.Builder) {
	say := func(n uint64, what string) {
		if n > 0 {
			fmt.Fprintf(b, "%s: %d\n", what, n)
		}
	}
	for reason, n := range c.Faults {
		say(n, "readings "+Reason(reason).String())
	}
	say(c.Reversed, "counters reversed")
	say(c.ClockJumps, "clock jumps")
	say(c.Replaced, "cgroups replaced")
	say(c.DroppedCgroups, "cgroups dropped")
	say(c.DroppedCPUs, "CPUs dropped")
	say(c.DroppedNUMANodes, "NUMA nodes dropped")
	say(c.Uncached, "files not kept open")
}

// cell is one sample.
func cell[T any](s Sample[T], format func(T) string) string {
	switch s.State() {
	case Valid:
		return format(s.value)
	case Stale:
		return format(s.value) + "~" + s.age.Round(time.Second).String()
	case Reversed:
		return "<0"
	case Missing:
	}
	if s.reason == NotRead || s.reason == First {
		return "-"
	}
	return "!" + s.reason.String()
}

func cores(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + "%" }

func plain(v int64) string { return strconv.FormatInt(v, 10) }

func amountsPer(v float64) string { return amounts(int64(v)) }

// amounts has at most five characters up to 10 Ei.
func amounts(v int64) string {
	if v < 10_000 {
		return strconv.FormatInt(v, 10)
	}
	for _, unit := range [...]string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
		if v >>= 10; v < 10_000 {
			return strconv.FormatInt(v, 10) + unit
		}
	}
	return strconv.FormatInt(v>>10, 10) + "Ei"
}

// write aligns columns, the first to the left and the others to the right.
func write(b *strings.Builder, grid [][]string) {
	widths := make([]int, len(grid[0]))
	for _, row := range grid {
		for i, text := range row {
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, row := range grid {
		for i, text := range row {
			if i == 0 {
				fmt.Fprintf(b, "%-*s", widths[i], text)
				continue
			}
			fmt.Fprintf(b, "  %*s", widths[i], text)
		}
		b.WriteByte('\n')
	}
}
