package spec

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// independentFile lists the fields whose effect depends on no other field, beside the roles of the process.
const independentFile = "testdata/independent-fields.txt"

// knob is a field of the configuration that has no fields of its own.
type knob struct {
	path  string
	tags  []string // of it and of the structs around it
	index []int
}

func knobs() (out []knob) {
	var visit func(of reflect.Type, path string, index []int, tags []string)
	visit = func(of reflect.Type, path string, index []int, tags []string) {
		for i := range of.NumField() {
			field, index, tags := of.Field(i), append(slices.Clip(index), i), tags
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if tag := field.Tag.Get(needsTag); tag != "" {
				tags = append(slices.Clip(tags), tag)
			}
			switch {
			case field.Anonymous:
				visit(field.Type, path, index, tags)
			case field.Type.Kind() == reflect.Struct:
				visit(field.Type, path+name+".", index, tags)
			default:
				out = append(out, knob{path + name, tags, index})
			}
		}
	}
	visit(reflect.TypeFor[Configuration](), "", nil, nil)
	return out
}

// change sets a field to another value than its default.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem())) // a default is never nil
		change(t, v.Elem())
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 0.01)
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case v.Kind() == reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
		v.Set(m)
	default:
		t.Fatalf("a field of type %v: say how it is changed", v.Type())
	}
}

// everyRole are the roles that a process may run.
var everyRole = [][]Role{{RoleDispatcher, RoleScheduler, RoleBinder}, {RoleDispatcher, RoleBinder}, {RoleScheduler}, {RoleAgent}, {RoleWatchdog}, {RoleController}, {RoleMetrics}}

// TestNoEffect: a field that is the only one to differ from its default has an effect, in a process of some role, or is told of: NoEffect warns or Validate refuses it, and names the other
// field. A new field fails the test until somebody says which of the two holds.
func TestNoEffect(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(independentFile)
	if err != nil {
		t.Fatal(err)
	}
	independent := strings.Fields(string(text))
	if !slices.IsSorted(independent) {
		t.Errorf("%s is not in order", independentFile)
	}
	var alone []string
	for _, k := range knobs() {
		if k.path != "roles" && slices.ContainsFunc(everyRole, func(roles []Role) bool { return actsAlone(t, &k, roles) }) {
			alone = append(alone, k.path)
		}
	}
	slices.Sort(alone)
	for _, field := range alone {
		if !slices.Contains(independent, field) {
			t.Errorf("%s: nobody is told where it does nothing. If it depends on another field, name that in a tag `needs` (no_effect.go); if it depends on none, add it to %s", field, independentFile)
		}
	}
	for _, field := range independent {
		if !slices.Contains(alone, field) {
			t.Errorf("%s has %s, which depends on another field or is none; remove the line", independentFile, field)
		}
	}
}

// actsAlone reports whether a field that alone differs from its default is taken, without a word about another field.
func actsAlone(t *testing.T, k *knob, roles []Role) bool {
	t.Helper()
	c := Default()
	c.Roles = roles
	change(t, reflect.ValueOf(c).Elem().FieldByIndex(k.index))
	if warnings := NoEffect(c); len(warnings) > 0 {
		if len(warnings) > 1 || warnings[0].Field != k.path || !strings.Contains(warnings[0].Error(), " while ") {
			t.Fatalf("only %s differs from its default: %v", k.path, warnings)
		}
		return false
	}
	for _, mistake := range FieldErrors(Validate(c)) {
		if text := mistake.Error(); strings.Contains(text, k.path) && (strings.Contains(text, "has no effect") || strings.Contains(text, "belong together")) {
			return false
		}
	}
	return true
}

// TestNeedsCanBeMet: each tag names fields that exist, with values that they may have.
func TestNeedsCanBeMet(t *testing.T) {
	t.Parallel()
	count := 0
	for _, k := range knobs() {
		for _, tag := range k.tags {
			for _, need := range strings.FieldsFunc(tag, func(r rune) bool { return r == ',' || r == '|' }) {
				count++
				c := Default()
				w := effects{of: reflect.ValueOf(c).Elem()}
				path, _ := w.unmet(need) // panics where there is no such field
				_, value, valued := strings.Cut(need, "=")
				if at := fieldAt(w.of, strings.Split(path, ".")); valued && at.Kind() == reflect.String {
					at.SetString(value)
				}
				for _, mistake := range FieldErrors(Validate(c)) {
					if mistake.Field == path {
						t.Errorf("%s needs %s: %v", k.path, need, mistake)
					}
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d needs were read", count)
	}
}

// TestNoEffectOfMerged: what the file and a NodeConfiguration say is judged together, and each half alone is no mistake.
func TestNoEffectOfMerged(t *testing.T) {
	t.Parallel()
	half := WrittenParameters(`{"memoryBandwidth": {"intensiveBytesPerSecond": 5000000000}, "lending": {"rdt": {"feedback": {"domainBytesPerSecond": 100000000000, "hold": "2m"}}}}`)
	file := Default().Node
	check := func(file *Node, want ...string) {
		t.Helper()
		merged, err := half.On(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, warning := range NoEffectOnNode(&merged) {
			got = append(got, warning.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
	if err := ValidateNodeConfiguration(&NodeConfiguration{Parameters: half}); err != nil {
		t.Errorf("one half is no mistake: %v", err)
	}
	check(&file,
		"node.lending.rdt.feedback.domainBytesPerSecond: it has no effect while node.lending.rdt.enabled is false; change that, or leave it out. The same holds for node.lending.rdt.feedback.hold",
		"node.memoryBandwidth.intensiveBytesPerSecond: it has no effect while node.memoryBandwidth.groups is 0; change that, or leave it out")
	file.MemoryBandwidth.Groups, file.Lending.RDT.Enabled = 8, true
	check(&file)
	file.Lending.Enabled = new(false)
	check(&file, "node.lending.rdt.enabled: it has no effect while node.lending.enabled is false; change that, or leave it out. The same holds for "+
		"node.lending.rdt.feedback.domainBytesPerSecond, node.lending.rdt.feedback.hold, node.memoryBandwidth.groups and node.memoryBandwidth.intensiveBytesPerSecond")
}
