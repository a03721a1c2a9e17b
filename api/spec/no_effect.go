package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// needsTag is the tag of a field that has an effect only while other fields say something. `needs:"node.memoryBandwidth.groups"` wants that field to be there and not 0, false or
// empty, `needs:"node.overcommit.mode!=off"` another value, `needs:"roles=agent"` this one; in a list, this one among them. Alternatives are divided by |, and where several things are
// needed, by a comma. A tag of a struct holds for all of its fields, but for the one that the tag names.
const needsTag = "needs"

// maxNoEffect bounds how many fields one message names.
const maxNoEffect = 8

// NoEffect says which fields differ from their defaults and do nothing, because of what other fields say: a warning for each reason. It is for a whole configuration, with its defaults
// set. A warning and no mistake: a NodeConfiguration may bring what the file lacks, and who switches something off need not delete its parameters. For example
//
//	node.memoryBandwidth.intensiveBytesPerSecond: it has no effect while node.memoryBandwidth.groups is 0; change that, or leave it out
func NoEffect(c *Configuration) []*FieldError {
	w := effects{of: reflect.ValueOf(c).Elem(), defaults: reflect.ValueOf(Default()).Elem(), fields: make(map[string][]string)}
	w.walk("", w.of, w.defaults, nil)
	out := make([]*FieldError, len(w.reasons))
	for i, why := range w.reasons {
		fields := w.fields[why]
		text := "it has no effect while " + why + "; change that, or leave it out"
		if more := fields[1:]; len(more) > 0 {
			named := slices.Clone(more[:min(len(more), maxNoEffect)])
			if rest := len(more) - len(named); rest > 0 {
				named = append(named, fmt.Sprintf("%d others", rest))
			}
			text += ". The same holds for " + listed(named, "and")
		}
		out[i] = &FieldError{Field: fields[0], Err: errors.New(text)}
	}
	return out
}

// NoEffectOnNode is NoEffect for the configuration of a node, such as a NodeConfiguration makes of an agent's file.
func NoEffectOnNode(n *Node) []*FieldError {
	c := Default()
	c.Roles, c.Node = []Role{RoleAgent}, *n
	return NoEffect(c)
}

// effects collects fields that have no effect.
type effects struct {
	of, defaults reflect.Value
	fields       map[string][]string // by the reason
	reasons      []string            // in the order of the fields
}

// walk looks at the fields of a struct. needs are the tags of the structs around it, the outermost first.
func (w *effects) walk(at string, of, defaults reflect.Value, needs []string) {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := needs
		if tag := field.Tag.Get(needsTag); tag != "" {
			inner = append(slices.Clone(needs), strings.Split(tag, ",")...)
		}
		value, standard := of.Field(i), defaults.Field(i)
		switch {
		case field.Anonymous:
			w.walk(at, value, standard, inner)
		case value.Kind() == reflect.Struct:
			w.walk(at+name+".", value, standard, inner)
		case !reflect.DeepEqual(value.Interface(), standard.Interface()):
			w.judge(at+name, inner)
		}
	}
}

// judge notes a field with the first need that is not met.
func (w *effects) judge(field string, needs []string) {
	for _, need := range needs {
		var unmet []string
		for alternative := range strings.SplitSeq(need, "|") {
			path, why := w.unmet(alternative)
			if path == field || why == "" {
				unmet = nil
				break
			}
			if !slices.Contains(unmet, why) {
				unmet = append(unmet, why)
			}
		}
		if len(unmet) > 0 {
			why := listed(unmet, "and")
			if !slices.Contains(w.reasons, why) {
				w.reasons = append(w.reasons, why)
			}
			w.fields[why] = append(w.fields[why], field)
			return
		}
	}
}

// unmet says why one alternative of a need is not met, "" where it is, and the path of the field that it is about.
func (w *effects) unmet(need string) (path, why string) {
	path, want, valued := strings.Cut(need, "=")
	path, other := strings.CutSuffix(path, "!")
	value := fieldAt(w.of, strings.Split(path, "."))
	is := textOf(value)
	switch {
	case !valued && (!value.IsValid() || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0):
	case valued && holds(value, want) == other:
	default:
		return path, ""
	}
	return path, path + " is " + is
}

// holds reports whether a value is a text, or a list has it.
func holds(value reflect.Value, text string) bool {
	if value.Kind() != reflect.Slice {
		return fmt.Sprint(value.Interface()) == text
	}
	for i := range value.Len() {
		if fmt.Sprint(value.Index(i).Interface()) == text {
			return true
		}
	}
	return false
}

// textOf is a value as a file has it.
func textOf(value reflect.Value) string {
	switch {
	case !value.IsValid():
		return "0" // of a map, such as scheduling.scores
	case value.Kind() == reflect.String:
		if value.Len() == 0 {
			return "empty"
		}
	case value.Kind() == reflect.Slice:
		if value.Len() == 0 {
			return "empty"
		}
		return strings.ReplaceAll(fmt.Sprint(value.Interface()), " ", ", ")
	}
	return fmt.Sprint(value.Interface())
}

// fieldAt is a field by its path in the file; the zero Value where a map does not have it.
func fieldAt(v reflect.Value, path []string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case len(path) == 0 || !v.IsValid():
		return v
	case v.Kind() == reflect.Map:
		return v.MapIndex(reflect.ValueOf(path[0]))
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == path[0] {
			return fieldAt(v.FieldByIndex(field.Index), path[1:])
		}
	}
	panic("a tag names the field " + path[0] + ", which " + v.Type().Name() + " does not have") // TestNoEffect reads all tags
}
