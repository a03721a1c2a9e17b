package watchdog

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// knobs is a kernel in memory.
type knobs map[string]string

func (k knobs) Read(name string) (string, error) {
	if value, ok := k[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
}

func (k knobs) Write(name, value string) error {
	if _, ok := k[name]; !ok {
		return fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	k[name] = value
	return nil
}

const (
	file    = "kubepods/burstable/pod1/cpuset.cpus"
	lent    = "0"
	planned = "0-7"
)

// party is one process: an agent that lends whenever it may write, or a watchdog.
type party struct {
	fenced  *Fenced
	running bool
	dog     *Dog
}

// node is one node over time.
type node struct {
	*rapid.T
	directory       Directory
	kernel          knobs
	agent, dog      *party
	beats           uint64
	silent, watched int // seconds since the last beat; since when the watchdog has run all the time
}

func (n *node) newAgent() *party {
	return &party{fenced: &Fenced{Kernel: n.kernel, Directory: n.directory}, running: true}
}

func (n *node) newDog() *party {
	return &party{dog: New(n.directory, n.kernel, slog.New(slog.DiscardHandler)), running: true}
}

func (n *node) must(err error) {
	if err != nil {
		n.Fatal(err)
	}
}

// happens has something happen to one of the processes.
func (n *node) happens(step string) {
	switch step {
	case "stop agent", "agent goes on":
		n.agent.running = step == "agent goes on"
	case "new agent":
		n.agent = n.newAgent()
	case "stop dog", "dog goes on":
		n.dog.running = step == "dog goes on"
	case "new dog":
		n.dog, n.watched = n.newDog(), 0
	}
}

// agentWorks is a second of an agent that lends.
func (n *node) agentWorks() {
	agent := n.agent
	if !agent.fenced.Holds() {
		before := n.kernel[file]
		if err := agent.fenced.Write(file, lent); err == nil || n.kernel[file] != before {
			n.Fatalf("an agent writes when it is not its turn: %v", err)
		}
		seen, err := n.directory.Turn()
		n.must(err)
		turn, err := n.directory.Take(seen, Agent)
		n.must(err)
		agent.fenced.Took(turn)
	}
	n.must(agent.fenced.Write(file, lent))
	n.beats++
	n.must(n.directory.Beat(n.beats))
	n.silent = 0
}

func (n *node) check() {
	turn, err := n.directory.Turn()
	n.must(err)
	n.checkStatus(turn)
	switch {
	case n.agent.running && n.kernel[file] != lent:
		n.Fatalf("the watchdog writes while the agent lives, turn %+v", turn)
	case n.beats > 0 && n.silent > 30 && n.watched > 30 && n.kernel[file] != planned:
		n.Fatalf("the agent has been silent for %d s, and what it lent is not back; turn %+v", n.silent, turn)
	}
}

// checkStatus holds what a watchdog that has just looked says of itself to what has happened.
func (n *node) checkStatus(turn Turn) {
	if !n.dog.running {
		return
	}
	s := n.dog.dog.Status()
	if s.Owner != turn.Owner || s.Trouble != "" || s.Looks == 0 {
		n.Fatalf("the watchdog says %+v, and it is turn %+v", s, turn)
	}
	if s.Beating != (n.beats > 0) {
		n.Fatalf("after %d beats the watchdog says %+v", n.beats, s)
	}
	if silent := time.Duration(n.silent) * time.Second; s.Beating && n.watched > n.silent+1 && s.Silent != silent {
		n.Fatalf("the agent has been silent for %v, and the watchdog says %v", silent, s.Silent)
	}
	took := s.Plans > 0
	if took && (s.GivenBack < s.Plans || s.Silent < 0) || !took && turn.Owner == Agent && s.GivenBack > 0 && n.watched > n.silent+1 && s.Looks == uint64(n.watched) {
		n.Fatalf("the watchdog says %+v", s)
	}
}

// Whatever stops, goes on, dies and comes back: the agent's value stands while it lives, the plan's no later than half a minute after its last beat, and neither
// party writes over the other's.
func TestOneOwner(t *testing.T) {
	steps := slices.Concat(slices.Repeat([]string{""}, 10), []string{"stop agent", "agent goes on", "new agent", "stop dog", "dog goes on", "new dog"})
	rapid.Check(t, func(r *rapid.T) {
		n := &node{T: r, directory: Directory(t.TempDir()), kernel: knobs{file: planned}}
		n.must(os.WriteFile(n.directory.PlanPath(), Plan{CPUs: []CgroupCPUs{{"kubepods/burstable/pod1", planned}}}.Encode(), 0o600))
		n.agent, n.dog = n.newAgent(), n.newDog()
		for second := range rapid.IntRange(1, 200).Draw(r, "seconds") {
			n.happens(rapid.SampledFrom(steps).Draw(r, "step"))
			n.silent, n.watched = n.silent+1, n.watched+1
			if n.agent.running {
				n.agentWorks()
			}
			if n.dog.running {
				n.dog.dog.Look(time.Duration(second) * time.Second)
			} else {
				n.watched = 0
			}
			n.check()
		}
	})
}

// A watchdog that starts while it has the turn goes on at once.
func TestRestartOfTheWatchdog(t *testing.T) {
	d, kernel := Directory(t.TempDir()), knobs{file: lent}
	if err := os.WriteFile(d.PlanPath(), Plan{CPUs: []CgroupCPUs{{"kubepods/burstable/pod1", planned}}}.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Take(Turn{}, Watchdog); err == nil {
		t.Error("the watchdog takes the turn where no agent has been")
	}
	first, err := d.Take(Turn{}, Agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Take(first, Watchdog); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Take(first, Agent); err == nil {
		t.Error("a turn is taken twice")
	}
	New(d, kernel, slog.New(slog.DiscardHandler)).Look(0)
	if kernel[file] != planned {
		t.Errorf("the pod has %s, want %s", kernel[file], planned)
	}
}

// A plan is read whole or not at all.
func TestParsePlan(t *testing.T) {
	good := `{"version":1,"gpus":true,"cpus":[{"cgroup":"kubepods.slice/kubepods-pod1.slice","cpus":"0-3"}]}`
	if p, err := ParsePlan([]byte(good)); err != nil || !p.GPUs || len(p.CPUs) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2"},
		{strings.Replace(good, `"gpus"`, `"cpu"`, 1), "unknown field"},
		{good + "{}", "something comes after"},
		{strings.Replace(good, "0-3", "", 1), "would have none"},
		{strings.Replace(good, "0-3", "x", 1), "cpus[0].cpus"},
		{strings.Replace(good, "kubepods.slice/", "system.slice/", 1), "no pod's"},
		{strings.Replace(good, "kubepods-pod1.slice", "..", 1), "no pod's"},
		{`{"version":1,"gpus":true,"cpus":[{"cgroup":"kubepods","cpus":"0-3"}]}`, "no pod's"},
		{"", "the plan"},
	} {
		if _, err := ParsePlan([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add(`{"version":1,"gpus":true,"cpus":[{"cgroup":"kubepods/pod1","cpus":"0-3"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlan([]byte(text))
		if err != nil {
			return
		}
		for _, c := range p.CPUs {
			if !strings.Contains(c.Cgroup, "kubepods") || strings.Contains(c.Cgroup, "..") && !ofPods(c.Cgroup) {
				t.Errorf("a plan is for %s", c.Cgroup)
			}
		}
	})
}
