package blkio

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/enforce"
)

// lookAgain is how many ticks pass between two looks at the disks and at what the kernel has.
const lookAgain = 60

// Control is what the agent's loop calls. It belongs to one caller.
type Control struct {
	kernel  enforce.Kernel
	sys     fs.FS
	top     string
	params  Params
	cost    *Cost
	ticks   int
	disks   []Disk
	support Support
	unread  []Condition     // the disks cannot be listed
	limited map[string]bool // numbers of the disks that had a ceiling
}

// NewControl returns a Control for a node whose /sys is given; top is the cgroup that all pods are below: "kubepods". It touches nothing before Tick.
func NewControl(k enforce.Kernel, sys fs.FS, top string, p Params) *Control {
	return &Control{kernel: k, sys: sys, top: top, params: p, cost: NewCost(k, p.Devices), limited: map[string]bool{}}
}

// Set changes the settings, from the next Tick on.
func (c *Control) Set(p Params) {
	c.params = p
	c.cost.Set(p.Devices)
}

// Tick keeps io.cost, and returns the knobs of the pods, which are for a table, and what does not work. Where the pods have no io controller there
// are no knobs.
func (c *Control) Tick(pods []enforce.Pod) ([]enforce.DesiredKnob, []Condition) {
	if c.ticks%lookAgain == 0 {
		c.look()
	}
	c.ticks++
	conditions := append(append([]Condition{}, c.support.Conditions...), c.unread...)
	if c.support.Cost {
		conditions = append(conditions, c.cost.Tick(c.disks)...)
	}
	var out []enforce.DesiredKnob
	for _, w := range desiredKnobs(pods, c.limits(), c.params) {
		if w.File == enforce.IOWeight && c.support.Weights || w.File == enforce.IOMax && c.support.Ceilings {
			out = append(out, w)
		}
	}
	return out, conditions
}

// limits are a reclaimed pod's: those of the settings, and none on disks that they once named.
func (c *Control) limits() string {
	lines, now := c.params.limits(c.disks), map[string]bool{}
	for _, line := range lines {
		number, _, _ := strings.Cut(line, " ")
		c.limited[number], now[number] = true, true
	}
	for _, number := range slices.Sorted(maps.Keys(c.limited)) {
		if !now[number] {
			lines = append(lines, number)
		}
	}
	return strings.Join(lines, "\n")
}

func (c *Control) look() {
	c.support, c.unread = Detect(c.kernel, c.top), nil
	disks, err := Disks(c.sys)
	if err != nil {
		c.unread = []Condition{{ReasonNoDisk, "the disks cannot be listed: " + err.Error()}}
		return // those of before may still be there
	}
	c.disks = disks
}

// Close turns io.cost off where this process turned it on. The pods' knobs stay as they are, and a pod keeps its ceiling until it ends.
func (c *Control) Close() error { return c.cost.Close() }
