package reload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
)

// Change is what a file says that a running process does not run with.
type Change struct {
	// Next is what the process is to run with: what runs, with the fields that are Applied as the file has them.
	Next *spec.Configuration
	// Applied and Restart are paths of fields, in order.
	Applied, Restart []string
}

// Empty reports whether there is nothing to do and nothing to say.
func (c *Change) Empty() bool { return len(c.Applied)+len(c.Restart) == 0 }

// field is one that a scheduler can change while it runs.
type field struct {
	path string
	of   func(*spec.Configuration) any // a pointer
	// scores: schedulers in other processes were told of it when they joined.
	scores bool
}

// applicable are the fields that a process with the roles of a leader goes on with. All others need a restart: they are what the process was built from, as its connections,
// its watches and its indexes, or both sides of something rely on them, as the time limits of writes under the Lease.
var applicable = []field{
	{path: "logging.level", of: func(c *spec.Configuration) any { return &c.Logging.Level }},
	{path: "scheduling.scores", scores: true, of: func(c *spec.Configuration) any { return &c.Scheduling.Scores }},
	{path: "scheduling.capacityRatio", scores: true, of: func(c *spec.Configuration) any { return &c.Scheduling.CapacityRatio }},
	{path: "scheduling.profiles", scores: true, of: func(c *spec.Configuration) any { return &c.Scheduling.Profiles }},
	{path: "scheduling.backoff", of: func(c *spec.Configuration) any { return &c.Scheduling.Backoff }},
	{path: "scheduling.binding.maxAhead", of: func(c *spec.Configuration) any { return &c.Scheduling.Binding.MaxAhead }},
	{path: "scheduling.binding.maxAttempts", of: func(c *spec.Configuration) any { return &c.Scheduling.Binding.MaxAttempts }},
	{path: "scheduling.binding.volumeTimeout", of: func(c *spec.Configuration) any { return &c.Scheduling.Binding.VolumeTimeout }},
	{path: "scheduling.conditions", of: func(c *spec.Configuration) any { return &c.Scheduling.Conditions }},
	{path: "scheduling.units", of: func(c *spec.Configuration) any { return &c.Scheduling.Units }},
	{path: "scheduling.events", of: func(c *spec.Configuration) any { return &c.Scheduling.Events }},
	{path: "scheduling.evictions", of: func(c *spec.Configuration) any { return &c.Scheduling.Evictions }},
}

// Divide divides what differs between a process that runs and its file. Both are complete and valid. It changes neither.
func Divide(running, file *spec.Configuration) (Change, error) {
	c, err := divide(running, file)
	if err != nil {
		return Change{}, err
	}
	if valid := configfile.Check(c.Next) == nil; !valid {
		all := slices.Concat(c.Applied, c.Restart)
		slices.Sort(all)
		return Change{Next: running, Restart: all}, nil
	}
	return c, nil
}

// divide is Divide for what is not known to be valid together.
func divide(running, file *spec.Configuration) (Change, error) {
	next, err := copied(running)
	if err != nil {
		return Change{}, err
	}
	wanted, err := copied(file)
	if err != nil {
		return Change{}, err
	}
	c := Change{Next: next}
	for _, f := range applicable {
		from, to := reflect.ValueOf(f.of(wanted)).Elem(), reflect.ValueOf(f.of(next)).Elem()
		if reflect.DeepEqual(from.Interface(), to.Interface()) || f.scores && spec.IsLeader(running.Roles) {
			continue
		}
		if f.path == "scheduling.profiles" && !sameNumbers(next.Scheduling.Profiles, wanted.Scheduling.Profiles) {
			continue
		}
		to.Set(from)
		c.Applied = append(c.Applied, f.path)
	}
	if c.Restart, err = differing(next, wanted); err != nil {
		return Change{}, err
	}
	slices.Sort(c.Applied)
	return c, nil
}

// sameNumbers reports whether pods that have the number of a profile by the one list have the same by the other.
func sameNumbers(a, b []spec.SchedulingProfile) bool {
	return slices.EqualFunc(a, b, func(x, y spec.SchedulingProfile) bool {
		return x.Name == y.Name && slices.Equal(x.SchedulerNames, y.SchedulerNames)
	})
}

// copied is a configuration that shares nothing with another.
func copied(c *spec.Configuration) (*spec.Configuration, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("copy the configuration: %w", err)
	}
	out := &spec.Configuration{} // without defaults: what is left out of the text is zero
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("copy the configuration: %w", err)
	}
	return out, nil
}

// differing are the paths of the fields that differ; a list is one field.
func differing(a, b *spec.Configuration) (paths []string, err error) {
	var trees [2]map[string]any
	for i, c := range []*spec.Configuration{a, b} {
		text, err := json.Marshal(c)
		if err == nil {
			err = json.Unmarshal(text, &trees[i])
		}
		if err != nil {
			return nil, fmt.Errorf("compare the configurations: %w", err)
		}
	}
	compare("", trees[0], trees[1], func(path string) { paths = append(paths, path) })
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

func compare(at string, a, b map[string]any, differs func(path string)) {
	for _, side := range []map[string]any{a, b} {
		for name := range side {
			x, xIsTree := a[name].(map[string]any)
			y, yIsTree := b[name].(map[string]any)
			switch path := strings.TrimPrefix(at+"."+name, "."); {
			case xIsTree && yIsTree, xIsTree && b[name] == nil, yIsTree && a[name] == nil:
				compare(path, x, y, differs)
			case !reflect.DeepEqual(a[name], b[name]):
				differs(path)
			}
		}
	}
}
