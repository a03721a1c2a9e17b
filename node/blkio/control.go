package blkio

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
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
	pods    string // the cgroup that all pods are below
	mounts  func() (string, error)
	params  Params // as set
	now     Params // with the kernel's names of disks
	cost    *Cost
	ticks   int
	disks   []Disk
	support Support
	unread  []Condition     // the disks cannot be listed, or not be found
	limited map[string]bool // numbers of the disks that had a ceiling
	bounded map[string]bool // and of those that had a latency
	top     topWeight
	looked  map[string]bool // cgroups in which latencies of an agent before this one were looked for
}

// NewControl returns a Control for a node whose /sys is given, and the text of the mountinfo file in which the paths of settings are looked up; top is the cgroup that all
// pods are below: "kubepods". It touches nothing before Tick.
func NewControl(k enforce.Kernel, sys fs.FS, mounts func() (string, error), top string, p Params) *Control {
	return &Control{
		kernel: k, sys: sys, mounts: mounts, pods: top, params: p, now: p, cost: NewCost(k, nil), limited: map[string]bool{}, bounded: map[string]bool{}, looked: map[string]bool{},
	}
}

// Set changes the settings, from the next Tick on.
func (c *Control) Set(p Params) {
	c.params, c.ticks = p, 0 // it looks for the disks
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
		for _, one := range c.cost.Tick(c.disks) {
			if !slices.Contains(conditions, one) {
				conditions = append(conditions, one)
			}
		}
	}
	c.adopt(pods)
	var out []enforce.DesiredKnob
	if len(c.now.Latencies) > 0 && !c.support.Latencies {
		conditions = append(conditions, Condition{ReasonNoLatency, "the kernel has no " + enforce.IOLatency + " (CONFIG_BLK_CGROUP_IOLATENCY), or the pods' cgroups have no io controller"})
	}
	lines := perDisk{limits: remembered(c.now.limits(c.disks), c.limited, ""), latencies: remembered(c.now.latencies(c.disks), c.bounded, " target=0")}
	for _, w := range desiredKnobs(pods, lines, c.now) {
		if w.File == enforce.IOWeight && c.support.Weights || w.File == enforce.IOMax && c.support.Ceilings || w.File == enforce.IOLatency && c.support.Latencies {
			out = append(out, w)
		}
	}
	if c.support.Weights {
		top, err := c.weighTop()
		if err != nil {
			conditions = append(conditions, Condition{ReasonRefused, err.Error()})
		}
		out = append(out, top...)
	}
	return out, conditions
}

// adopt looks for latencies that an agent before this one has left: at first in all cgroups of pods, then in new ones around them. Those around pods never end, and would
// keep theirs for ever.
func (c *Control) adopt(pods []enforce.Pod) {
	if !c.support.Latencies {
		return
	}
	first := len(c.looked) == 0
	for _, pod := range pods {
		dir := pod.Cgroup
		if !first {
			dir = path.Dir(dir)
		}
		for ; strings.HasPrefix(dir, c.pods+"/") && !c.looked[dir]; dir = path.Dir(dir) {
			c.looked[dir] = true
			text, _ := c.kernel.Read(dir + "/" + enforce.IOLatency) // one that is gone has none
			for line := range strings.Lines(text) {
				if number, _, _ := strings.Cut(strings.TrimSpace(line), " "); isNumber(number) {
					c.bounded[number] = true
				}
			}
		}
	}
}

// remembered are the lines of the settings, and one without a bound for each disk that they once named.
func remembered(lines []string, had map[string]bool, without string) string {
	now := map[string]bool{}
	for _, line := range lines {
		number, _, _ := strings.Cut(line, " ")
		had[number], now[number] = true, true
	}
	for _, number := range slices.Sorted(maps.Keys(had)) {
		if !now[number] {
			lines = append(lines, number+without)
		}
	}
	return strings.Join(lines, "\n")
}

func (c *Control) look() {
	c.support, c.unread = Detect(c.kernel, c.pods), nil
	if disks, err := Disks(c.sys); err != nil {
		c.unread = []Condition{{ReasonNoDisk, "the disks cannot be listed: " + err.Error()}} // those of before may still be there
	} else {
		c.disks = disks
	}
	text, err := c.mounts()
	now, missing := c.params.on(c.disks, func(name string) ([]string, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: which disk it is on cannot be read: %w", name, err)
		}
		return Holders(c.sys, text, name)
	})
	c.unread = append(c.unread, missing...)
	if err != nil && c.ticks > 0 {
		return // where the disks were is better than nowhere
	}
	c.now = now
	if c.ticks == 0 || !reflect.DeepEqual(now.Devices, c.cost.devices) {
		c.cost.Set(now.Devices)
	}
}

// Close turns io.cost off where this process turned it on. The pods' knobs stay as they are, and a pod keeps its ceiling until it ends.
func (c *Control) Close() error { return c.cost.Close() }
