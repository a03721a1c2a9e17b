package enforce

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/topology"
)

// Kernel reads and writes knobs. Paths are below the root of the hierarchy. A cgroup that is not there (any more) is syscall.ENOENT or
// ENODEV. A write that ErrOwnContainer says of is none that the kernel would take later.
type Kernel interface {
	Read(path string) (string, error)
	Write(path, value string) error
}

// ErrOwnContainer says that a knob is one of the container that this process runs in. Where cgroups are mounted with nsdelegate, as systemd does it, nobody in a cgroup namespace
// of its own may write those. The runtime does, and is told the same values.
var ErrOwnContainer = errors.New("the container that this process runs in is the runtime's alone")

const (
	// MaxAttempts is how often one knob is written in a tick while the kernel is busy.
	MaxAttempts = 3
	// maxBackoff is the most ticks that a knob rests which the kernel goes on refusing.
	maxBackoff = 16
)

// Table is the wanted value of each knob.
type Table struct {
	rows map[Knob]*row
}

type row struct {
	knob     Knob
	kind     *kind
	owner    Owner
	want     string
	changed  bool   // it was not compared with the kernel since want changed
	settled  bool   // it was right once, so a difference was made by another process
	accepted string // what the kernel made of want when it was written, where it rounds
	failures int    // refusals in a row
	backoff  int    // ticks until it is tried again
}

// Outcome is what a tick did.
type Outcome struct {
	Written    int // values that were changed
	Right      int // values that were as wanted
	Gone       int // knobs of cgroups that are not there: not yet, or no more
	Reverted   int // of Written: values that were right before and that another process had changed
	BackingOff int // knobs that were refused lately and not tried
	Left       int // knobs that only the runtime can write: ErrOwnContainer
	Foreign    int // knobs that another process has set meanwhile, whose value counts
	Refused    []Refused
}

// Refused is a knob that the kernel did not let us read or write.
type Refused struct {
	Knob  Knob
	Owner Owner
	Value string
	Err   error
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{rows: make(map[Knob]*row)} }

// Len is the number of knobs.
func (t *Table) Len() int { return len(t.rows) }

// Want sets what a knob shall be. It fails with ErrOwned where another owner has the knob, and where the file is no knob, the value none
// of its values, or the cgroup not below the root; the table is then as before.
func (t *Table) Want(owner Owner, k Knob, value string) error {
	kind, known := kinds[k.File]
	if !known {
		return fmt.Errorf("%s: %q is no knob", k.Path(), k.File)
	}
	if err := below(k.Cgroup); err != nil {
		return err
	}
	want, err := kind.canonical(value)
	if err != nil {
		return fmt.Errorf("%s: %w", k.Path(), err)
	}
	if kind.foreign != nil && kind.foreign(want) {
		return fmt.Errorf("%s: %q would be taken for a limit of another process", k.Path(), value)
	}
	r := t.rows[k]
	switch {
	case r == nil:
		t.rows[k] = &row{knob: k, kind: &kind, owner: owner, want: want, changed: true}
	case r.owner != owner:
		return fmt.Errorf("%s: %w: %s, not %s", k.Path(), ErrOwned, r.owner, owner)
	case r.want != want:
		*r = row{knob: k, kind: &kind, owner: owner, want: want, changed: true}
	}
	return nil
}

// Release gives a knob up; the kernel's value stays. A call by another owner changes nothing.
func (t *Table) Release(owner Owner, k Knob) {
	if r := t.rows[k]; r != nil && r.owner == owner {
		delete(t.rows, k)
	}
}

// Drop forgets a cgroup and those below it: it is gone.
func (t *Table) Drop(cgroup string) {
	for k := range t.rows {
		if k.Cgroup == cgroup || strings.HasPrefix(k.Cgroup, cgroup+"/") {
			delete(t.rows, k)
		}
	}
}

// Recheck makes the next Flush compare the knobs of a cgroup and of those below it, because another process may have changed them.
func (t *Table) Recheck(cgroup string) {
	for k, r := range t.rows {
		if k.Cgroup == cgroup || strings.HasPrefix(k.Cgroup, cgroup+"/") {
			r.changed, r.backoff = true, 0
		}
	}
}

// Tick compares every knob with the kernel and writes what differs.
func (t *Table) Tick(k Kernel) Outcome {
	return t.apply(k, func(r *row) bool { return true })
}

// Flush is Tick for the knobs whose desired value has changed since they were last compared.
func (t *Table) Flush(k Kernel) Outcome {
	return t.apply(k, func(r *row) bool { return r.changed })
}

// change is a knob that has to be written.
type change struct {
	row    *row
	shrink bool
}

func (t *Table) apply(k Kernel, include func(*row) bool) (o Outcome) {
	var changes []change
	for _, r := range t.rows {
		if !include(r) {
			continue
		}
		if r.backoff > 0 && !r.changed {
			r.backoff--
			o.BackingOff++
			continue
		}
		r.changed = false
		actual, err := k.Read(r.knob.Path())
		if err != nil {
			o.failed(r, err)
			continue
		}
		if canonical, err := r.kind.canonical(actual); err == nil {
			actual = canonical
		}
		if r.kind.right(actual, r.want) || (r.accepted != "" && actual == r.accepted) {
			r.isRight()
			o.Right++
			continue
		}
		changes = append(changes, change{r, shrinks(r, actual)})
	}
	slices.SortFunc(changes, before)
	for _, c := range changes {
		o.write(k, c.row)
	}
	slices.SortFunc(o.Refused, func(a, b Refused) int { return strings.Compare(a.Knob.Path(), b.Knob.Path()) })
	return o
}

// before orders writes: a write that takes CPUs from one pod comes before a write that gives them to another, and parents before their children. A
// child whose set lies outside of its parent's runs on the parent's, so the upper write already moves it.
func before(a, b change) int {
	switch {
	case a.shrink != b.shrink && a.shrink:
		return -1
	case a.shrink != b.shrink:
		return 1
	}
	x, y := a.row.knob, b.row.knob
	return cmp.Or(cmp.Compare(strings.Count(x.Cgroup, "/"), strings.Count(y.Cgroup, "/")), strings.Compare(x.Path(), y.Path()))
}

// shrinks reports whether the wanted set only takes away from the actual one. An empty set in the kernel means the parent's.
func shrinks(r *row, actual string) bool {
	if r.knob.File != CPUSet {
		return false
	}
	has, err := topology.ParseCPUSet(actual)
	want, _ := topology.ParseCPUSet(r.want)
	return err == nil && (has.IsEmpty() || want.Minus(has).IsEmpty())
}

func (o *Outcome) write(k Kernel, r *row) {
	if o.foreign(k, r) {
		return
	}
	var err error
	for range MaxAttempts {
		if err = k.Write(r.knob.Path(), r.want); err == nil || !transient(err) {
			break
		}
	}
	if err != nil {
		o.failed(r, err)
		return
	}
	o.Written++
	if r.settled {
		o.Reverted++
	}
	r.isRight()
	if r.kind.rounded {
		r.accepted, _ = k.Read(r.knob.Path()) // what the kernel rounds is not written again and again
		r.accepted, _ = r.kind.canonical(r.accepted)
	}
}

// foreign reports whether a knob is not to be written, because it has a value of another process that counts, or nobody knows. It reads at the last moment: the kubelet may write while the others are compared.
func (o *Outcome) foreign(k Kernel, r *row) bool {
	if r.kind.foreign == nil {
		return false
	}
	actual, err := k.Read(r.knob.Path())
	if err != nil {
		o.failed(r, err)
		return true
	}
	if canonical, err := r.kind.canonical(actual); err != nil || !r.kind.foreign(canonical) {
		return false
	}
	o.Foreign++
	return true
}

func (r *row) isRight() { r.settled, r.failures, r.backoff = true, 0, 0 }

// failed notes that a knob could neither be read nor written.
func (o *Outcome) failed(r *row, err error) {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
		o.Gone++
		return
	}
	if errors.Is(err, ErrOwnContainer) {
		o.Left++
		return
	}
	r.failures++
	r.backoff = min(1<<min(r.failures-1, 5), maxBackoff) - 1
	o.Refused = append(o.Refused, Refused{Knob: r.knob, Owner: r.owner, Value: r.want, Err: err})
}

// transient reports whether the same write may succeed in a moment.
func transient(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}
