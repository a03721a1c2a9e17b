package quiet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

func set(t interface{ Fatal(...any) }, text string) topology.CPUSet {
	s, err := topology.ParseCPUSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// host is a machine's interrupts and services in memory, and a disk.
type host struct {
	files  map[Place]string
	fixed  map[Place]error
	disk   []byte
	broken error // of the disk
	writes []string
}

func newHost() *host {
	return &host{
		files: map[Place]string{"irq/0": "0-7", "irq/24": "0-7", "irq/25": "4", "irq/26": "0-3", "irq/30": "4-5", "system.slice": "", "user.slice": "2-7"},
		fixed: map[Place]error{"irq/0": syscall.EIO},
	}
}

func (h *host) Interrupts() (out []string, _ error) {
	for _, p := range slices.Sorted(maps.Keys(h.files)) {
		if number, ok := p.Interrupt(); ok {
			out = append(out, number)
		}
	}
	return out, nil
}

func (h *host) Read(p Place) (string, error) {
	text, ok := h.files[p]
	if !ok {
		return "", fmt.Errorf("%s: %w", p, fs.ErrNotExist)
	}
	return text + "\n", nil
}

func (h *host) Write(p Place, value string) error {
	h.writes = append(h.writes, string(p)+"="+strings.TrimSpace(value))
	if err := h.fixed[p]; err != nil {
		return err
	}
	value = strings.TrimSpace(value)
	if _, interrupt := p.Interrupt(); !interrupt && value == "" {
		return syscall.ENOSPC // it has processes
	}
	h.files[p] = value
	return nil
}

func (h *host) Load() ([]byte, error) { return h.disk, h.broken }
func (h *host) Save(data []byte) error {
	if h.broken == nil {
		h.disk = slices.Clone(data)
	}
	return h.broken
}

func (h *host) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(h.writes, want) {
		t.Errorf("writes %q, want %q", h.writes, want)
	}
	h.writes = nil
}

var both = Settings{Interrupts: true, Services: true}

// Interrupts and services leave the CPUs that are held, whatever cannot move is tried once, and all have what they had before when nobody holds CPUs any more, also by a
// keeper that comes after.
func TestKeeper(t *testing.T) {
	h := newHost()
	all, held := set(t, "0-7"), set(t, "4-5")
	k := NewKeeper(h, h)
	if notes := k.Step(all, topology.CPUSet{}, both); len(notes) != 0 || h.disk != nil || len(k.state) != 0 {
		t.Errorf("nobody holds anything: %v, %s", notes, h.disk)
	}
	h.expect(t)
	before := maps.Clone(h.files)
	if notes := k.Step(all, held, both); len(notes) != 0 {
		t.Error(notes)
	}
	h.expect(t, "irq/0=0-3,6-7", "irq/24=0-3,6-7", "irq/25=0-3,6-7", "irq/30=0-3,6-7", "system.slice=0-3,6-7", "user.slice=2-3,6-7")
	k.Step(all, held, both)
	h.expect(t)
	k = NewKeeper(h, h) // after a start
	k.Step(all, set(t, "4-6"), both)
	h.expect(t, "irq/0=0-3,7", "irq/24=0-3,7", "irq/25=0-3,7", "irq/30=0-3,7", "system.slice=0-3,7", "user.slice=2-3,7")
	k.Step(all, all, both) // all are held: each has what it had
	h.expect(t, "irq/24=0-7", "irq/25=4", "irq/30=4-5", "system.slice=", "system.slice=0-7", "user.slice=2-7")
	k.Step(all, held, Settings{Services: true})
	h.expect(t, "system.slice=0-3,6-7", "user.slice=2-3,6-7")
	h.files["irq/77"] = "0-7"
	k.Step(all, held, both)
	h.expect(t, "irq/24=0-3,6-7", "irq/25=0-3,6-7", "irq/30=0-3,6-7", "irq/77=0-3,6-7")
	delete(h.files, "irq/77") // its device has gone
	if err := NewKeeper(h, h).GiveBack(all); err != nil {
		t.Error(err)
	}
	before["system.slice"] = "0-7" // the kernel empties none with processes
	if !maps.Equal(h.files, before) || string(h.disk) != "{}" {
		t.Errorf("%v is left of %v, and %s on disk", h.files, before, h.disk)
	}
}

// What was there before is on disk before anything is written: without a disk nothing is.
func TestKeeperWithoutDisk(t *testing.T) {
	h := newHost()
	h.broken = errors.New("no disk")
	k := NewKeeper(h, h)
	if notes := k.Step(set(t, "0-7"), set(t, "4"), both); len(notes) != 1 || notes[0].Reason != ReasonRefused {
		t.Errorf("%v", notes)
	}
	h.broken = nil
	k.Step(set(t, "0-7"), topology.CPUSet{}, both)
	h.broken = errors.New("no disk")
	if notes := k.Step(set(t, "0-7"), set(t, "4"), both); len(notes) != 1 {
		t.Errorf("%v", notes)
	}
	h.expect(t)
}

// Who moves an interrupt again and again has it, and is told of.
func TestKeeperYields(t *testing.T) {
	h := newHost()
	k := NewKeeper(h, h)
	all, held := set(t, "0-7"), set(t, "4-5")
	var notes []Note
	for range maxReverted + 2 {
		notes = k.Step(all, held, both)
		h.files["irq/24"] = "5"
	}
	if len(notes) != 1 || notes[0].Reason != ReasonTaken || !strings.Contains(notes[0].Message, "irq/24;") {
		t.Errorf("%v", notes)
	}
	h.writes = nil
	k.Step(all, held, both)
	h.expect(t)
	k.Step(all, topology.CPUSet{}, both)
	k.Step(all, held, both) // nobody held any in between: so it is tried again
	if !slices.Contains(h.writes, "irq/24=0-3,6-7") {
		t.Errorf("writes %q, want irq/24 again", h.writes)
	}
	if err := k.GiveBack(all); err != nil || h.files["irq/24"] != "5" || h.files["irq/25"] != "4" {
		t.Errorf("%v: %v", err, h.files)
	}
	h.fixed["irq/25"] = syscall.EROFS
	if notes := k.Step(all, held, both); len(notes) != 1 || notes[0].Reason != ReasonRefused || !strings.Contains(notes[0].Message, "irq/25") {
		t.Errorf("%v", notes)
	}
}

// An interrupt that was moved and that the kernel refuses to move back for a while is told of, and moved back when it can be.
func TestKeeperRefusedGiveBack(t *testing.T) {
	h := newHost()
	k := NewKeeper(h, h)
	all := set(t, "0-7")
	k.Step(all, set(t, "4-5"), both)
	h.fixed["irq/25"] = syscall.ENOSPC // no vector is free
	if err := NewKeeper(h, h).GiveBack(all); err == nil || !strings.Contains(err.Error(), "irq/25") {
		t.Errorf("%v", err)
	}
	k.Step(all, topology.CPUSet{}, both)
	delete(h.fixed, "irq/25")
	if err := k.GiveBack(all); err != nil || h.files["irq/25"] != "4" {
		t.Errorf("%v: %v", err, h.files)
	}
}

// What others did before a restart, as a boot of the machine does, does not count.
func TestKeeperAfterBoots(t *testing.T) {
	h := newHost()
	for range 2 * maxReverted {
		h.files["system.slice"], h.files["irq/24"] = "", "0-7"
		if notes := NewKeeper(h, h).Step(set(t, "0-7"), set(t, "4-5"), both); len(notes) != 0 || h.files["irq/24"] != "0-3,6-7" || h.files["system.slice"] != "0-3,6-7" {
			t.Errorf("%v: %v", notes, h.files)
		}
	}
}

// A host without cgroups of services says so.
func TestKeeperWithoutServices(t *testing.T) {
	h := newHost()
	delete(h.files, "system.slice")
	delete(h.files, "user.slice")
	if notes := NewKeeper(h, h).Step(set(t, "0-7"), set(t, "4-5"), both); len(notes) != 1 || notes[0].Reason != ReasonRefused || !strings.Contains(notes[0].Message, "system.slice") {
		t.Errorf("%v", notes)
	}
}

// Whatever pods hold and others do: what is kept off has no held CPU while one is free; and when all is over each has what it had before, or what somebody else gave it.
func TestDecideProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := set(t, "0-7")
		some := rapid.Custom(func(t *rapid.T) (s topology.CPUSet) {
			for _, cpu := range rapid.SliceOf(rapid.IntRange(0, 7)).Draw(t, "cpus") {
				s = s.Union(set(t, fmt.Sprint(cpu)))
			}
			return s
		})
		has := map[Place]topology.CPUSet{}
		for _, p := range []Place{"irq/1", "irq/2", "system.slice"} {
			has[p] = some.Draw(t, string(p))
		}
		others := maps.Clone(has)
		var state State
		step := func(held topology.CPUSet, on bool) (left []Place) {
			writes, after, left := Decide(&Observation{All: all, Held: held, Places: has}, func(Place) bool { return on }, state)
			for _, w := range writes {
				has[w.Place] = w.CPUs
			}
			state = after
			return left
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			held := some.Draw(t, "held")
			keptOff(t, has, all, held, step(held, true))
			if rapid.Bool().Draw(t, "somebody else") {
				p := rapid.SampledFrom([]Place{"irq/1", "irq/2", "system.slice"}).Draw(t, "place")
				if to := some.Draw(t, "to"); to != has[p] {
					has[p], others[p] = to, to
				}
			}
		}
		if step(topology.CPUSet{}, rapid.Bool().Draw(t, "on")); !maps.Equal(has, others) || len(state) > 0 && !left(state) {
			t.Fatalf("%v is left of %v, with %v", has, others, state)
		}
	})
}

// keptOff fails where a place that is not left to somebody else has a held CPU.
func keptOff(t *rapid.T, has map[Place]topology.CPUSet, all, held topology.CPUSet, left []Place) {
	t.Helper()
	for p, cpus := range has {
		if cpus.IsEmpty() {
			cpus = all
		}
		if held != all && !slices.Contains(left, p) && !cpus.Intersection(held).IsEmpty() {
			t.Fatalf("%s has %s, held are %s", p, cpus, held)
		}
	}
}

// left reports whether a state has nothing but places that are left to somebody else.
func left(s State) bool {
	for _, kept := range s {
		if kept.Reverted <= maxReverted {
			return false
		}
	}
	return true
}

// The files are the machine's, and a number from a file on disk leads nowhere else.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"24", "default", "7"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "24", "smp_affinity_list"), []byte("0-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Machine{Directory: dir}
	if got, err := m.Interrupts(); err != nil || !slices.Equal(got, []string{"24", "7"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := m.Write("irq/24", "1\n"); err != nil {
		t.Error(err)
	}
	if got, err := m.Read("irq/24"); err != nil || !strings.HasPrefix(got, "1\n") {
		t.Errorf("%q, %v", got, err)
	}
	for _, p := range []Place{"irq/../24", "irq/", "irq/7"} {
		if _, err := m.Read(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
		if err := m.Write(p, "0"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
