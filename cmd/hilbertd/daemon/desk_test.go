package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/peers"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/outside"
)

// knock has somebody ask to be let in, while the loop does what it has to.
func (w *world) knock(d *door, token string) error {
	w.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, _, err := d.Join(context.Background(), &outside.Hello{Protocol: outside.Protocol, Schema: outside.Schema(), Name: "s"}, token)
		done <- err
	}()
	for {
		select {
		case call := <-w.desk.calls:
			call()
		case err := <-done:
			return err
		}
	}
}

// TestTokensAreChecked: a leader that wants tokens lets those in who show one of its users for its audience; says why to others; lets nobody in whose token it cannot have checked, and keeps those who
// are there; and asks nothing while it does not lead.
func TestTokensAreChecked(t *testing.T) {
	s := standin.New(t)
	const ours, user = "hilbert-schedulers", "system:serviceaccount:hilbert-system:hilbert-scheduler"
	s.UserFor(ours, "good", user)
	s.UserFor(ours, "other", "system:serviceaccount:red:default")
	s.UserFor("vault", "elsewhere", user)
	s.User("any", user) // of an authenticator that knows no audiences
	asked, down := 0, false
	s.Intercept(func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "tokenreviews") {
			return false
		}
		asked++
		if down {
			http.Error(out, "down", http.StatusInternalServerError)
		}
		return down
	})
	check, err := newTokenCheck(s.Connection(), &spec.Peers{TokenAudience: ours, TokenUsers: []string{"x", user}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	d := &door{w.loop, check}
	if err := w.knock(d, "good"); !errors.Is(err, peers.ErrStandby) || asked > 0 {
		t.Errorf("a standby says %v, and has asked %d times", err, asked)
	}
	w.list()
	w.took(&modelTerm{takeover: lease.Released, lost: make(chan struct{})})
	for w.phase != leading {
		w.round()
		if w.phase == listing {
			w.list()
		}
	}
	for _, c := range []struct{ token, want string }{
		{"", "it shows no token for the audience hilbert-schedulers; set its peers.tokenFile"},
		{"stranger", "does not know the token"},
		{"elsewhere", "token audiences are invalid"},
		{"any", "the token is for the audiences []; want one of"},
		{"other", "the token is of the user system:serviceaccount:red:default; want one of"},
	} {
		if err := w.knock(d, c.token); err == nil || errors.Is(err, peers.ErrUncertain) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("token %q: %v, want %q", c.token, err, c.want)
		}
	}
	here := func(want int) {
		t.Helper()
		if got := w.scheduler.Outside().Counts().Schedulers; got != want {
			t.Errorf("%d schedulers are there, want %d", got, want)
		}
	}
	here(0)
	before := asked
	for range 2 {
		if err := w.knock(d, "good"); err != nil {
			t.Error(err)
		}
	}
	here(2)
	if asked != before+1 {
		t.Errorf("two joins with one token in a moment are %d questions", asked-before)
	}
	down = true
	s.UserFor(ours, "good 2", user)
	if err := w.knock(d, "good 2"); !errors.Is(err, peers.ErrUncertain) {
		t.Errorf("while the API server does not answer: %v", err)
	}
	here(2)
	down = false
	if err := w.knock(d, "good 2"); err != nil {
		t.Error(err)
	}
	here(3)
}

// Without tokens, certificates suffice, and a token that is shown all the same is not looked at.
func TestTokensAreNotChecked(t *testing.T) {
	check, err := newTokenCheck(nil, &spec.Peers{})
	if err != nil || check != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if err := w.knock(&door{w.loop, nil}, "x"); !errors.Is(err, peers.ErrStandby) {
		t.Error(err)
	}
}
