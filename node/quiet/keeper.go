package quiet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/topology"
)

// Files read and write places. A place that is not there is fs.ErrNotExist.
type Files interface {
	// Interrupts lists the numbers of the interrupts.
	Interrupts() ([]string, error)
	Read(Place) (string, error)
	Write(Place, string) error
}

// Store keeps a value over restarts; store.File is one.
type Store interface {
	Load() ([]byte, error) // nil: there is none
	Save(data []byte) error
}

// Settings say what is kept off held CPUs.
type Settings struct{ Interrupts, Services bool }

// Note is what does not work, for people.
type Note struct{ Reason, Message string }

// The reasons.
const (
	// ReasonTaken: another program, as irqbalance, changes what is set.
	ReasonTaken = "QuietTaken"
	// ReasonRefused: a place cannot be read or written.
	ReasonRefused = "QuietRefused"
)

// services are the cgroups of what the host runs beside pods, as systemd names them.
var services = []Place{"system.slice", "user.slice", "init.scope"}

const (
	// maxInterrupts bounds what is looked at.
	maxInterrupts = 1 << 14
	// maxNamed bounds how many places a note names.
	maxNamed = 5
)

// Keeper keeps places as Decide has them. It belongs to one caller at a time.
type Keeper struct {
	files Files
	store Store
	state State
	saved []byte
	// fixed are places that the kernel does not let go.
	fixed map[Place]bool
}

// NewKeeper returns a Keeper of a machine. It touches nothing before Step.
func NewKeeper(files Files, store Store) *Keeper {
	return &Keeper{files: files, store: store, fixed: map[Place]bool{}}
}

// Step keeps what the settings name off the held CPUs, and gives back all else. What the places had before is on disk first; else nothing is written.
func (k *Keeper) Step(all, held topology.CPUSet, s Settings) (notes []Note) {
	if err := k.load(); err != nil {
		return []Note{{ReasonRefused, err.Error()}}
	}
	o, problems := k.look(s)
	o.All, o.Held = all, held
	wanted := func(p Place) bool {
		if _, interrupt := p.Interrupt(); interrupt {
			return s.Interrupts
		}
		return s.Services
	}
	writes, after, left := Decide(o, wanted, k.state)
	remember := maps.Clone(k.state) // until what is given back has been written
	maps.Copy(remember, after)
	if err := k.save(remember); err != nil {
		return append(problems, Note{ReasonRefused, err.Error()})
	}
	var refused []string
	for _, w := range writes {
		if err := k.write(w, all); err != nil {
			refused = append(refused, k.refused(w.Place, err, after)...)
		}
	}
	k.state = after
	if err := k.save(after); err != nil {
		problems = append(problems, Note{ReasonRefused, err.Error()})
	}
	if len(refused) > 0 {
		problems = append(problems, Note{ReasonRefused, firstOf(refused) + ": interrupts are moved by /proc/irq, which a pod has only where the host's is mounted at /run/hilbert-irq"})
	}
	if len(left) > 0 {
		names := make([]string, len(left))
		for i, place := range left {
			names[i] = string(place)
		}
		problems = append(problems, Note{ReasonTaken, "another program moves " + firstOf(names) + "; stop it, or have it leave these CPUs alone (irqbalance: IRQBALANCE_BANNED_CPULIST)"})
	}
	return problems
}

// refused takes a place that was not written as it was; one that the kernel never let go is not tried again. It returns what is to be told.
func (k *Keeper) refused(p Place, err error, after State) []string {
	before, known := k.state[p]
	if known {
		after[p] = before
	} else {
		delete(after, p)
	}
	_, interrupt := p.Interrupt()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
		delete(after, p)
		return nil
	case !known && interrupt && (errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)):
		k.fixed[p] = true
		return nil
	}
	return []string{err.Error()}
}

// GiveBack gives every place what it had before, and forgets that there was any: for the removal of the agent. all are the machine's CPUs.
func (k *Keeper) GiveBack(all topology.CPUSet) error {
	notes := k.Step(all, topology.CPUSet{}, Settings{})
	var errs []error
	for _, n := range notes {
		errs = append(errs, errors.New(n.Message))
	}
	return errors.Join(errs...)
}

// look reads the places that may be written, and those that were.
func (k *Keeper) look(s Settings) (o *Observation, notes []Note) {
	o = &Observation{Places: map[Place]topology.CPUSet{}, Unread: map[Place]bool{}}
	places := slices.Collect(maps.Keys(k.state))
	if s.Services {
		places = append(places, services...)
	}
	if s.Interrupts {
		numbers, err := k.files.Interrupts()
		if err != nil {
			notes = append(notes, Note{ReasonRefused, "the interrupts cannot be listed: " + err.Error()})
		}
		for _, number := range numbers[:min(len(numbers), maxInterrupts)] {
			places = append(places, Place(interruptPrefix+number))
		}
	}
	slices.Sort(places)
	host := false // whether there is a cgroup of services
	for _, p := range slices.Compact(places) {
		if k.fixed[p] {
			continue
		}
		text, err := k.files.Read(p)
		var cpus topology.CPUSet
		if err == nil {
			cpus, err = topology.ParseCPUSet(strings.TrimSpace(text))
		}
		_, interrupt := p.Interrupt()
		host = host || !interrupt && !errors.Is(err, fs.ErrNotExist)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil, interrupt && cpus.IsEmpty():
			o.Unread[p] = true
		default:
			o.Places[p] = cpus
		}
	}
	if s.Services && !host {
		notes = append(notes, Note{ReasonRefused, "the host's services cannot be moved: no cgroup system.slice, user.slice or init.scope has cpuset.cpus"})
	}
	return o, notes
}

// write writes one place. The kernel lets nobody empty the set of a cgroup with processes, which then gets all.
func (k *Keeper) write(w Write, all topology.CPUSet) error {
	text := w.CPUs.String()
	err := k.files.Write(w.Place, text+"\n")
	if err != nil && w.CPUs.IsEmpty() && !all.IsEmpty() && !errors.Is(err, fs.ErrNotExist) {
		err = k.files.Write(w.Place, all.String()+"\n")
	}
	if err != nil {
		return fmt.Errorf("%s = %q: %w", w.Place, text, err)
	}
	return nil
}

func (k *Keeper) load() error {
	if k.state != nil {
		return nil
	}
	data, err := k.store.Load()
	if err != nil {
		return fmt.Errorf("read what interrupts and services had before: %w", err)
	}
	state := State{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &state); err != nil {
			return fmt.Errorf("read what interrupts and services had before: %w", err)
		}
	}
	k.state, k.saved = state, data
	return nil
}

// save has the state on disk, if it is not.
func (k *Keeper) save(s State) error {
	if len(s) == 0 && len(k.saved) == 0 {
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("keep what interrupts and services had before: %w", err)
	}
	if bytes.Equal(data, k.saved) {
		return nil
	}
	if err := k.store.Save(data); err != nil {
		return fmt.Errorf("keep what interrupts and services had before: %w", err)
	}
	k.saved = data
	return nil
}

func firstOf(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
