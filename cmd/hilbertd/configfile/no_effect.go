package configfile

import (
	"cmp"
	"log/slog"
	"slices"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/document"
)

// WarnOfNoEffect logs which fields of a configuration that is in force do nothing (spec.NoEffect).
func WarnOfNoEffect(log *slog.Logger, fields []*spec.FieldError) {
	for _, f := range fields {
		log.Warn("the configuration has a field that does nothing", "field", f.Field, "why", f.Err)
	}
}

// Warnings are fields of a valid configuration that do nothing, each with its place in the text.
func Warnings(data []byte, c *spec.Configuration) []*document.Problem {
	return placed(data, "", spec.NoEffect(c))
}

// NodeWarnings are Warnings of a manifest of a NodeConfiguration. It is judged over an agent's defaults, and the file of an agent may bring what is missing: the messages say so.
func NodeWarnings(data []byte, c *v1alpha1.NodeConfiguration) []*document.Problem {
	defaults := spec.Default().Node
	merged, err := c.Spec.Parameters.On(&defaults)
	if err != nil {
		return nil // ParseNodeConfiguration has told
	}
	fields := spec.NoEffectOnNode(&merged)
	for i, f := range fields {
		fields[i] = &spec.FieldError{Field: "parameters" + f.Field[len("node"):], Err: &onlyDefault{f.Err}}
	}
	return placed(data, "spec.", fields)
}

// onlyDefault is a reason that holds where the file of an agent says nothing else.
type onlyDefault struct{ error }

func (e *onlyDefault) Error() string {
	return "where the agent's file does not say otherwise, " + e.error.Error()
}

func (e *onlyDefault) Unwrap() error { return e.error }

// placed gives messages their places. Under is the path of the object whose fields they name, with a dot behind it.
func placed(data []byte, under string, fields []*spec.FieldError) []*document.Problem {
	text, err := document.Parse(data)
	if err != nil {
		return nil // it was read before
	}
	out := make([]*document.Problem, len(fields))
	for i, f := range fields {
		out[i] = text.Locate(under+f.Field, under+hinted(f))
	}
	slices.SortStableFunc(out, func(a, b *document.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return out
}
