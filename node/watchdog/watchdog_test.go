package watchdog

import (
	"fmt"
	"log/slog"
	"os"
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

// Whatever stops, goes on, dies and comes back: the agent's value stands while it lives, the plan's no later than half a minute after its last beat, and neither
// party writes over the other's.
func TestOneOwner(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp("", "watchdog")
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		d, kernel := Directory(dir), knobs{file: planned}
		if err := os.WriteFile(d.PlanPath(), Plan{CPUs: []CgroupCPUs{{"kubepods/burstable/pod1", planned}}}.Encode(), 0o600); err != nil {
			r.Fatal(err)
		}
		newAgent := func() *party { return &party{fenced: &Fenced{Kernel: kernel, Directory: d}, running: true} }
		newDog := func() *party { return &party{dog: New(d, kernel, slog.New(slog.DiscardHandler)), running: true} }
		agent, dog := newAgent(), newDog()
		var beats uint64
		silent, watched := 0, 0 // seconds since the last beat; since when the watchdog has run all the time
		for second := range rapid.IntRange(1, 200).Draw(r, "seconds") {
			switch rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "", "", "stop agent", "agent goes on", "new agent", "stop dog", "dog goes on", "new dog"}).Draw(r, "step") {
			case "stop agent":
				agent.running = false
			case "agent goes on":
				agent.running = true
			case "new agent":
				agent = newAgent()
			case "stop dog":
				dog.running = false
			case "dog goes on":
				dog.running = true
			case "new dog":
				dog, watched = newDog(), 0
			}
			silent, watched = silent+1, watched+1
			if agent.running {
				if !agent.fenced.Holds() {
					before := kernel[file]
					if err := agent.fenced.Write(file, lent); err == nil || kernel[file] != before {
						r.Fatalf("an agent writes when it is not its turn: %v", err)
					}
					seen, err := d.Turn()
					if err != nil {
						r.Fatal(err)
					}
					turn, err := d.Take(seen, Agent)
					if err != nil {
						r.Fatal(err)
					}
					agent.fenced.Took(turn)
				}
				if err := agent.fenced.Write(file, lent); err != nil {
					r.Fatal(err)
				}
				beats++
				if err := d.Beat(beats); err != nil {
					r.Fatal(err)
				}
				silent = 0
			}
			if !dog.running {
				watched = 0
			} else {
				dog.dog.Look(time.Duration(second) * time.Second)
			}
			switch turn, err := d.Turn(); {
			case err != nil:
				r.Fatal(err)
			case agent.running && kernel[file] != lent:
				r.Fatalf("the watchdog writes while the agent lives, turn %+v", turn)
			case beats > 0 && silent > 30 && watched > 30 && kernel[file] != planned:
				r.Fatalf("the agent has been silent for %d s, and what it lent is not back; turn %+v", silent, turn)
			}
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
