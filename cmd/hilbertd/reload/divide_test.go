package reload

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// leaf is a field of the configuration that is no struct.
type leaf struct {
	path  string
	index []int // of reflect.Value.FieldByIndex, through no pointer
}

func leavesOf(t reflect.Type, path string, index []int) (out []leaf) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := slices.Concat(index, []int{i})
		inner := strings.TrimPrefix(path+"."+name, ".")
		if name == "" {
			inner = path
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			out = append(out, leavesOf(f.Type, inner, at)...)
			continue
		}
		out = append(out, leaf{inner, at})
	}
	return out
}

// alter gives a value of a type that differs.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		alter(fresh.Elem())
		v.Set(fresh)
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		if one.Kind() != reflect.Struct {
			alter(one)
		}
		v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), one))
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		value := reflect.New(v.Type().Elem()).Elem()
		alter(value)
		m.SetMapIndex(reflect.ValueOf("other").Convert(v.Type().Key()), value)
		v.Set(m)
	default:
		panic(fmt.Sprint("a field of kind ", v.Kind()))
	}
}

// Each field that differs is applied or needs a restart, never both, and Next says of each what was decided. Those that are applied are these.
func TestEachFieldIsDecided(t *testing.T) {
	var applied []string
	for _, l := range leavesOf(reflect.TypeFor[spec.Configuration](), "", nil) {
		running, file := spec.Default(), spec.Default()
		alter(reflect.ValueOf(file).Elem().FieldByIndex(l.index))
		c, err := divide(running, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(c.Applied) + len(c.Restart); got != 1 {
			t.Errorf("%s: applied %v, restart %v; want it in one", l.path, c.Applied, c.Restart)
			continue
		}
		said := slices.Concat(c.Applied, c.Restart)[0]
		if said != l.path && !strings.HasPrefix(l.path, said+".") {
			t.Errorf("%s: it is called %s", l.path, said)
		}
		want := running
		if len(c.Applied) > 0 {
			want = file
			applied = append(applied, l.path)
		}
		if a, b := asText(t, c.Next), asText(t, want); a != b {
			t.Errorf("%s: runs with\n%s\nwant\n%s", l.path, a, b)
		}
		if !reflect.DeepEqual(running, spec.Default()) {
			t.Fatalf("%s: what runs was changed", l.path)
		}
	}
	want := strings.Fields(`logging.level scheduling.scores scheduling.capacityRatio scheduling.backoff.initial scheduling.backoff.max
		scheduling.binding.maxAhead scheduling.binding.maxAttempts scheduling.binding.volumeTimeout
		scheduling.conditions.perSecond scheduling.conditions.burst scheduling.conditions.minInterval
		scheduling.units.timeout scheduling.units.reserveAfter scheduling.units.repairTimeout scheduling.units.maxReservations
		scheduling.events.scheduled scheduling.evictions.percentPerMinute scheduling.evictions.burst`)
	slices.Sort(want)
	slices.Sort(applied)
	if !slices.Equal(applied, want) {
		t.Errorf("applied are\n%v\nwant\n%v", applied, want)
	}
}

func asText(t *testing.T, c *spec.Configuration) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Profiles are applied where pods keep their numbers; where schedulers in other processes score, nothing about scores is.
func TestProfiles(t *testing.T) {
	profile := func(name, scheduler, score string, weight int64) spec.SchedulingProfile {
		return spec.SchedulingProfile{Name: name, SchedulerNames: []string{scheduler}, Scores: map[string]int64{score: weight}}
	}
	for name, x := range map[string]struct {
		peers    bool
		from, to []spec.SchedulingProfile
		applied  string
	}{
		"another weight":         {false, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 1)}, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 2)}, "scheduling.profiles"},
		"another scheduler name": {false, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 1)}, []spec.SchedulingProfile{profile("a", "b", "LeastAllocated", 1)}, ""},
		"another profile":        {false, nil, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 1)}, ""},
		"schedulers elsewhere":   {true, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 1)}, []spec.SchedulingProfile{profile("a", "a", "LeastAllocated", 2)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			running, file := spec.Default(), spec.Default()
			if x.peers {
				for _, c := range []*spec.Configuration{running, file} {
					c.Roles = []spec.Role{spec.RoleDispatcher, spec.RoleBinder}
					c.Peers = spec.Peers{BindAddress: "0.0.0.0:1", TLSCertFile: "a", TLSPrivateKeyFile: "b", CAFile: "c", SchedulerNames: []string{"d"}}
				}
			}
			running.Scheduling.Profiles, file.Scheduling.Profiles = x.from, x.to
			c, err := divide(running, file)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Applied, " "); got != x.applied || len(c.Applied)+len(c.Restart) != 1 {
				t.Errorf("applied %v, restart %v, want applied %q", c.Applied, c.Restart, x.applied)
			}
		})
	}
}

// A mixture that is not valid is not run with.
func TestMixtureIsValid(t *testing.T) {
	running, file := spec.Default(), spec.Default()
	running.SchedulerName = "" // no rule of today divides fields that are applied from those that are not; of those that run, one is bad
	file.Logging.Level = "debug"
	c, err := Divide(running, file)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Applied) != 0 || c.Next != running || strings.Join(c.Restart, " ") != "logging.level schedulerName" {
		t.Errorf("%+v", c)
	}
	if c, err := Divide(file, file); err != nil || !c.Empty() {
		t.Errorf("nothing differs: %+v, %v", c, err)
	}
}

// A file is read when it has changed, and a mistake in it is told once.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	at := time.Unix(1_800_000_000, 0)
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := os.WriteFile(path, []byte("apiVersion: config.hilbert.dev/v1alpha1\nkind: HilbertConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("logging: {level: info}\n")
	f := NewFile(path, func(c *spec.Configuration) { c.ClientConnection.Kubeconfig = "flag" })
	read := func(level, fault string) {
		t.Helper()
		c, err := f.Read()
		switch {
		case fault != "":
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("got %v, want an error with %q", err, fault)
			}
		case err != nil:
			t.Error(err)
		case level == "" && c != nil, level != "" && (c == nil || c.Logging.Level != level || c.ClientConnection.Kubeconfig != "flag"):
			t.Errorf("got %+v, want level %q", c, level)
		}
	}
	read("", "")
	write("logging: {level: debug}\n")
	read("debug", "")
	read("", "")
	write("logging: {level: loud}\n")
	read("", "logging.level")
	read("", "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	read("", "no such file")
	read("", "")
	write("logging: {level: warn}\n")
	read("warn", "")
}

func TestHash(t *testing.T) {
	a, b := spec.Default(), spec.Default()
	if Hash(a) != Hash(b) || Hash(a) == "" {
		t.Error("equal configurations have different hashes")
	}
	b.Scheduling.Units.MaxReservations++
	if Hash(a) == Hash(b) {
		t.Error("different ones have the same")
	}
}
