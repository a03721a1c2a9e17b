package resource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Kind is the dense index of a resource name in a Table.
type Kind int32

// The kinds that every Table knows.
const (
	CPU Kind = iota // millicores
	Memory
	EphemeralStorage
	Pods
	builtin
)

// Names of the built-in kinds, as Kubernetes spells them.
const (
	NameCPU              = "cpu"
	NameMemory           = "memory"
	NameEphemeralStorage = "ephemeral-storage"
	NamePods             = "pods"
)

// MaxKinds bounds a Table: each kind costs a column over all nodes.
const MaxKinds = 512

// ErrTooManyKinds is returned when a Table has no room for a name.
var ErrTooManyKinds = errors.New("too many distinct resource names")

// pinned is more users than there are nodes and queues.
const pinned = 1 << 40

// Table interns the resource names that nodes and queues use. What only pods name has no kind: no node has it, and whoever may create a pod could fill
// the table. A kind goes with its last user, and another name may get it then.
//
// Example: nodes a and b have example.com/fpga, which is kind 4. When both have gone, Settle says that the name has lost its kind, and who charges pods
// by kinds charges those that name it anew. A name that comes when MaxKinds are in use waits until one is free.
type Table struct {
	kinds    map[string]Kind
	names    []string // by Kind; empty: it is vacant
	users    []int    // by Kind
	live     int
	idle     []Kind         // that have lost their last user since Settle, perhaps to get another
	waiting  map[string]int // users of names that have no kind
	fresh    []string       // names that have got a kind since Settle
	revision uint64
}

// NewTable returns a Table that knows the built-in kinds.
func NewTable() *Table {
	t := &Table{kinds: make(map[string]Kind), waiting: make(map[string]int)}
	for _, name := range []string{NameCPU, NameMemory, NameEphemeralStorage, NamePods} {
		t.Intern(name)
	}
	return t
}

// Intern returns the Kind of a name that always has one: of a resource that Kubernetes or Hilbert itself knows. There is always room for these.
func (t *Table) Intern(name string) Kind {
	kind, ok := t.kinds[name]
	if !ok {
		kind = t.add(name)
		delete(t.waiting, name)
	}
	t.users[kind] = max(t.users[kind], pinned)
	return kind
}

// Use counts a node or a queue that names a resource, and gives the resource a kind if it has none and there is room.
func (t *Table) Use(name string) {
	kind, ok := t.kinds[name]
	switch {
	case ok:
		t.users[kind]++
	case t.live >= MaxKinds:
		t.waiting[name]++
	default:
		t.users[t.add(name)] = 1
	}
}

// Release ends what Use began. The kind stays until Settle.
func (t *Table) Release(name string) {
	kind, ok := t.kinds[name]
	if !ok {
		if t.waiting[name]--; t.waiting[name] <= 0 {
			delete(t.waiting, name)
		}
		return
	}
	if t.users[kind]--; t.users[kind] == 0 {
		t.idle = append(t.idle, kind)
	}
}

// Settle takes the kinds of names that nobody uses any more, and gives them to names that wait. It returns all names that have got or lost a kind since
// the last time, and of those that which had waited.
func (t *Table) Settle() (changed, waited []string) {
	changed, t.fresh = t.fresh, nil
	for _, kind := range t.idle {
		if name := t.names[kind]; name != "" && t.users[kind] == 0 {
			delete(t.kinds, name)
			t.names[kind] = ""
			t.live--
			t.revision++
			changed = append(changed, name)
		}
	}
	t.idle = nil
	for n := len(t.names); n > 0 && t.names[n-1] == ""; n-- {
		t.names, t.users = t.names[:n-1], t.users[:n-1]
	}
	if len(t.waiting) == 0 || t.live >= MaxKinds {
		return changed, nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.waiting)) {
		if t.live >= MaxKinds {
			break
		}
		t.users[t.add(name)] = t.waiting[name]
		delete(t.waiting, name)
		waited = append(waited, name)
	}
	t.fresh = nil
	return append(changed, waited...), waited
}

// add gives a name the lowest vacant kind.
func (t *Table) add(name string) Kind {
	at := slices.Index(t.names, "")
	if at < 0 {
		at = len(t.names)
		t.names, t.users = append(t.names, ""), append(t.users, 0)
	}
	t.names[at], t.users[at], t.kinds[name] = name, 0, Kind(at)
	t.live++
	t.revision++
	t.fresh = append(t.fresh, name)
	return Kind(at)
}

// Lookup returns the Kind of a name, if it has one.
func (t *Table) Lookup(name string) (Kind, bool) {
	kind, ok := t.kinds[name]
	return kind, ok
}

// Problem says why a name has no kind.
func (t *Table) Problem(name string) error {
	if _, waits := t.waiting[name]; waits {
		return fmt.Errorf("resource %q: %w (limit %d)", name, ErrTooManyKinds, MaxKinds)
	}
	return fmt.Errorf("no node has any %s", name)
}

// Name returns the name of a Kind, empty if it is vacant.
func (t *Table) Name(kind Kind) string {
	if int(kind) >= len(t.names) {
		return ""
	}
	return t.names[kind]
}

// Users is how many nodes and queues use a name.
func (t *Table) Users(name string) int {
	if kind, ok := t.kinds[name]; ok {
		return t.users[kind]
	}
	return t.waiting[name]
}

// Len is one more than the largest kind in use.
func (t *Table) Len() int { return len(t.names) }

// Live is how many names have a kind, and waiting how many more are used.
func (t *Table) Live() (live, waiting int) { return t.live, len(t.waiting) }

// Revision changes whenever a name gets a kind or loses it.
func (t *Table) Revision() uint64 { return t.revision }

// Verify holds the table against how often each name is used.
func (t *Table) Verify(users map[string]int) error {
	live := 0
	for kind, name := range t.names {
		if name == "" {
			continue
		}
		live++
		if t.kinds[name] != Kind(kind) || t.users[kind] < pinned/2 && (t.users[kind] != users[name] || users[name] == 0) {
			return fmt.Errorf("resource %q is kind %d of %d, with %d users instead of %d", name, kind, t.kinds[name], t.users[kind], users[name])
		}
	}
	if live != t.live || live != len(t.kinds) || len(t.waiting) > 0 && live < MaxKinds || len(t.idle) > 0 {
		return fmt.Errorf("%d of %d kinds are in use, %d names have one and %d wait, or the table is not settled", live, t.live, len(t.kinds), len(t.waiting))
	}
	for name, n := range users {
		if _, ok := t.kinds[name]; !ok && t.waiting[name] != n {
			return fmt.Errorf("resource %q has no kind, and %d of %d users wait for one", name, t.waiting[name], n)
		}
	}
	return nil
}

// Mirror makes the table give the names of another the kinds that they have there; empty: a kind is vacant. Nothing may be used or released in it otherwise.
func (t *Table) Mirror(names []string) error {
	if len(names) < int(builtin) || len(names) > 2*MaxKinds {
		return fmt.Errorf("%d resource kinds; want %d to %d", len(names), builtin, 2*MaxKinds)
	}
	kinds := make(map[string]Kind, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		if _, twice := kinds[name]; twice {
			return fmt.Errorf("the resource %q has two kinds", name)
		}
		kinds[name] = Kind(i)
	}
	for i, name := range []string{NameCPU, NameMemory, NameEphemeralStorage, NamePods} {
		if names[i] != name {
			return fmt.Errorf("the resource of kind %d is %q; want %q", i, names[i], name)
		}
	}
	t.kinds, t.names, t.users, t.live = kinds, slices.Clone(names), make([]int, len(names)), len(kinds)
	for i := range t.users {
		t.users[i] = pinned
	}
	t.revision++
	return nil
}

// Names are the names by kind, empty for vacant ones.
func (t *Table) Names() []string { return slices.Clone(t.names) }
