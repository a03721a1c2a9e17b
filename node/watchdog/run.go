package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/node/enforce"
)

// Interval is the time between two looks.
const Interval = time.Second

// ErrNotOurTurn says that a knob was not written, because it is another party's turn.
var ErrNotOurTurn = errors.New("it is not our turn to write knobs")

// Fenced is a Kernel that writes nothing unless it is our turn. Reading is everybody's.
type Fenced struct {
	enforce.Kernel
	Directory Directory
	turn      atomic.Pointer[Turn]
}

// Took says which turn is ours.
func (f *Fenced) Took(t Turn) { f.turn.Store(&t) }

// Holds reports whether that turn lasts.
func (f *Fenced) Holds() bool {
	t := f.turn.Load()
	return t != nil && f.Directory.Holds(*t)
}

// Write implements enforce.Kernel.
func (f *Fenced) Write(path, value string) error {
	if !f.Holds() {
		return fmt.Errorf("%s: %w", path, ErrNotOurTurn)
	}
	return f.Kernel.Write(path, value)
}

// owner is the watchdog in the table of knobs.
const owner enforce.Owner = "watchdog"

// Dog is a node's watchdog.
type Dog struct {
	directory Directory
	kernel    *Fenced
	log       *slog.Logger
	state     State
	table     *enforce.Table
	knobs     []enforce.Knob
	gpus      atomic.Bool // as the plan says
	trouble   string      // as last told
	told      bool        // of trouble, at this look
	record    record
}

// New returns a watchdog of a node.
func New(directory Directory, kernel enforce.Kernel, log *slog.Logger) *Dog {
	return &Dog{directory: directory, kernel: &Fenced{Kernel: kernel, Directory: directory}, log: log, table: enforce.NewTable()}
}

// GPUs reports whether the node's GPUs are Hilbert's to give, as far as the agent has said.
func (d *Dog) GPUs() bool { return d.gpus.Load() }

// Run looks each second, until ctx ends.
func (d *Dog) Run(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		d.Look(time.Since(began))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks once, and does what Decide says.
func (d *Dog) Look(now time.Duration) {
	d.told = false
	d.look(now)
	if !d.told {
		d.record.change(func(s *Status) { s.Trouble = "" })
	}
}

func (d *Dog) look(now time.Duration) {
	turn, err := d.directory.Turn()
	beat := d.directory.LastBeat()
	d.record.looked(now, turn.Owner, beat)
	if err != nil {
		d.tell(err)
		return
	}
	plan, err := d.directory.Plan()
	if err != nil && turn != (Turn{}) {
		d.tell(err)
	}
	if plan != nil {
		d.gpus.Store(plan.GPUs)
	}
	do := Decide(&d.state, &View{Turn: turn, Beat: beat, Plan: plan != nil}, now)
	if do.Take {
		d.log.Warn("the agent is silent; the pods get the CPUs of its plan for absence", "for", now-d.state.Since)
		if turn, err = d.directory.Take(turn, Watchdog); err != nil {
			d.tell(err)
			return
		}
		d.record.change(func(s *Status) { s.Plans, s.Owner = s.Plans+1, turn.Owner })
	}
	if !do.Carry {
		return
	}
	d.kernel.Took(turn)
	d.carry(plan)
}

// carry has the kernel as the plan says.
func (d *Dog) carry(plan *Plan) {
	for _, k := range d.knobs {
		d.table.Release(owner, k)
	}
	d.knobs = d.knobs[:0]
	for _, c := range plan.CPUs {
		k := enforce.Knob{Cgroup: c.Cgroup, File: enforce.CPUSet}
		if err := d.table.Want(owner, k, c.CPUs); err != nil {
			d.tell(err)
			continue
		}
		d.knobs = append(d.knobs, k)
	}
	out := d.table.Tick(d.kernel)
	d.record.change(func(s *Status) {
		s.GivenBack, s.Refused = s.GivenBack+uint64(out.Written), s.Refused+uint64(len(out.Refused)) //nolint:gosec // counts
	})
	if out.Written > 0 {
		d.log.Info("carried out the plan for absence", "written", out.Written, "right", out.Right, "gone", out.Gone)
	}
	for _, r := range out.Refused {
		d.tell(fmt.Errorf("%s = %s: %w", r.Knob.Path(), r.Value, r.Err))
	}
}

// tell logs what is wrong, once until something else is.
func (d *Dog) tell(err error) {
	d.told = true
	d.record.change(func(s *Status) { s.Trouble = err.Error() })
	if text := err.Error(); text != d.trouble {
		d.trouble = text
		d.log.Error("the watchdog cannot do its work", "err", err)
	}
}
