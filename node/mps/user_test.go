package mps

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAdmit(t *testing.T) {
	p := Defaults()
	host, other, mapped := User{ID: 1000}, User{ID: 1001}, User{ID: 1000, Mapped: true}
	for _, c := range []struct {
		name    string
		user    User
		holders []User
		several bool
		want    error
	}{
		{"the first", host, nil, false, nil},
		{"the same user", host, []User{host, host}, false, nil},
		{"another user", host, []User{host, other}, false, ErrUser},
		{"another user, and the server takes several", host, []User{other}, true, nil},
		{"root, and the first", User{}, nil, false, ErrHostRoot},
		{"root beside root", User{}, []User{{}}, false, ErrHostRoot},
		{"root, and the server takes several users", User{}, []User{host}, true, ErrHostRoot},
		{"root of a user namespace", User{Mapped: true}, nil, false, nil},
		{"the same number in two user namespaces", mapped, []User{mapped}, false, ErrUser},
		{"a number in a user namespace, and that of the host", mapped, []User{host}, false, ErrUser},
		{"that of the host, and in a user namespace", host, []User{mapped}, false, ErrUser},
		{"two user namespaces, and the server takes several users", mapped, []User{mapped}, true, nil},
	} {
		p.SeveralUsers = c.several
		if err := p.Admit(c.user, c.holders); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestHostRootIsToldTheCure: who has never heard of MPS reads what to write into the pod.
func TestHostRootIsToldTheCure(t *testing.T) {
	p := Defaults()
	err := p.Admit(User{}, nil)
	for _, word := range []string{"runAsUser", "runAsNonRoot: true", "hostUsers: false", "hilbert.dev/gpu-isolation: hard", "whole GPU"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v, without %s", err, word)
		}
	}
}

// TestNeverRootNorStrangers: whoever comes in whatever order, those on a GPU are never root of the host, and are one user there unless several are allowed.
func TestNeverRootNorStrangers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Defaults()
		p.SeveralUsers = rapid.Bool().Draw(r, "several")
		var on []User
		onHost := make(map[string]bool) // a user of a user namespace is nobody else on the host
		for range rapid.IntRange(1, 8).Draw(r, "pods") {
			u := User{ID: rapid.Uint32Range(0, 2).Draw(r, "user"), Mapped: rapid.Bool().Draw(r, "mapped")}
			if p.Admit(u, on) != nil {
				continue
			}
			on = append(on, u)
			name := u.String()
			if u.Mapped {
				name += strings.Repeat("'", len(on))
			}
			onHost[name] = true
			if u == (User{}) || len(onHost) > 1 && !p.SeveralUsers {
				r.Fatalf("on one GPU: %v", on)
			}
		}
	})
}
