package dashboard

import (
	"context"

	"hilbert.dev/hilbert/schedule/inspect"
)

// Source is where the pages have it from. Errors are for people.
type Source interface {
	// State is all that the scheduler knows.
	State(ctx context.Context) (*inspect.Dump, error)
	// Pod and Unit explain where a pod or a gang is, or why it is nowhere.
	Pod(ctx context.Context, namespace, name string) (*inspect.Answer, error)
	Unit(ctx context.Context, namespace, name string) (*inspect.UnitAnswer, error)
	// Name says where that is, for people.
	Name() string
}

// file answers from one state.
type file struct {
	name string
	dump *inspect.Dump
}

// File is a Source that has one state for ever.
func File(name string, d *inspect.Dump) Source { return file{name, d} }

func (f file) State(context.Context) (*inspect.Dump, error) { return f.dump, nil }

func (f file) Pod(_ context.Context, namespace, name string) (*inspect.Answer, error) {
	return f.dump.Explain(namespace, name)
}

func (f file) Unit(_ context.Context, namespace, name string) (*inspect.UnitAnswer, error) {
	return f.dump.ExplainUnit(namespace, name)
}

func (f file) Name() string { return f.name }
