package mps

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGive(t *testing.T) {
	began := time.Unix(1000, 0)
	fresh, used := Shared{Name: "1", Seen: began.Add(time.Second)}, Shared{Name: "1", Used: true, Seen: began.Add(time.Second)}
	early := Shared{Name: "1", Seen: began.Add(-time.Second)}
	for _, c := range []struct {
		what    string
		owner   string // of memory 1; "": not known
		is      Shared
		running []string
		want    error
	}{
		{"nobody had it", "", fresh, nil, nil},
		{"nobody had it before the agent was there, which may have given it since", "", early, nil, ErrShared},
		{"it is its own", "a", used, nil, nil},
		{"another's", "b", used, nil, ErrShared},
		{"another's, and nobody has seen it used yet", "b", fresh, nil, ErrShared},
		{"whose is not known", "", used, nil, ErrShared},
		{"whose is not known, and its own run with it", "", used, []string{"a", "a"}, nil},
		{"another runs with it", "", fresh, []string{"a", "b"}, ErrShared},
		{"another runs with what is its own", "a", used, []string{"b"}, ErrShared},
		{"a new one, and the last was another's", "b", Shared{Name: "2", Seen: began.Add(time.Second)}, nil, nil},
	} {
		o := Owners{Since: began}
		if c.owner != "" {
			o.of[3].shared, o.of[3].namespace = "1", c.owner
		}
		if err := o.Give(3, c.is, "a", c.running); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
}

// TestSharedByOneNamespace plays histories of containers, of a supervisor that looks now and then, of daemons that start anew and of agents that start again: no
// memory is ever given to pods of two namespaces, be what the agent knows of it old. And whoever comes to a GPU that nobody has gets it in the end.
func TestSharedByOneNamespace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, generation := time.Unix(1000, 0), 1
		owners := Owners{Since: now}
		given := make(map[string]string) // by memory
		var running []string             // namespaces, of the memory of now
		touched := false                 // by some container, or what it left, as the supervisor would see it now
		said := Shared{Name: "1", Seen: now.Add(1)}
		look := func() { said = Shared{Name: fmt.Sprint(generation), Used: touched, Seen: now} }
		renew := func() { generation, touched, running = generation+1, false, nil }
		give := func(namespace string) error {
			err := owners.Give(0, said, namespace, running)
			if err != nil {
				return err
			}
			if owner, had := given[said.Name]; had && owner != namespace {
				t.Fatalf("memory %s was given to %s and %s", said.Name, owner, namespace)
			}
			given[said.Name] = namespace
			if said.Name == fmt.Sprint(generation) {
				running, touched = append(running, namespace), true
			}
			return nil
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Second)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				look()
			case 1:
				if len(running) > 0 {
					running = running[1:]
				}
			case 2:
				if len(running) == 0 {
					renew()
				}
			case 3:
				owners = Owners{Since: now}
			default:
				_ = give(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"))
			}
		}
		running = nil
		renew()
		now = now.Add(time.Second)
		look()
		if err := give("c"); err != nil {
			t.Fatalf("nobody has it: %v", err)
		}
	})
}
