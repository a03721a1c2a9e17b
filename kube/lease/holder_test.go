package lease

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

func TestHolder(t *testing.T) {
	for identity, want := range map[string]Holder{
		"hilbert-system/hilbertd-1:10461_4be1": {"hilbert-system", "hilbertd-1", 10461, "4be1"},
		"machine:10461_4be1":                   {"", "machine", 10461, "4be1"},
		"my_machine_4be1":                      {"", "my_machine", 0, "4be1"},
		"ns/pod_4be1":                          {"ns", "pod", 0, "4be1"},
	} {
		got, err := ParseHolder(identity)
		if err != nil || got != want || got.String() != identity {
			t.Errorf("%s: %+v, %v, %s", identity, got, err, got.String())
		}
	}
	for _, identity := range []string{"", "kube-scheduler", "a:b_c", "a:99999_c", "ns/..:1_c", "a/b/c/../../apis:8_c", "ns/x?y=z#:1_c", "/x:1_c", "NS/x:1_c", "a\x1b[2J:1_c", "a/../b:1_c", "a b:1_c"} {
		if h, err := ParseHolder(identity); err == nil {
			t.Errorf("%q reads as %+v", identity, h)
		}
	}
}

func TestElectorAdvertises(t *testing.T) {
	e, err := NewElector(&apiserver.Connection{Host: "https://127.0.0.1:1"}, spec.Default().LeaderElection, NewFence(time.Second, time.Second), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before := e.Identity()
	if err := e.Advertise("127.0.0.1:1234"); err != nil {
		t.Fatal(err)
	}
	h, err := ParseHolder(e.Identity())
	if err != nil || h.Port != 1234 || h.Name+"_"+h.ID != before {
		t.Errorf("%+v, %v; before %s", h, err, before)
	}
}

// FuzzParseHolder: what is read as a pod or a machine is one by its name, and is written as it was read.
func FuzzParseHolder(f *testing.F) {
	for _, seed := range []string{"hilbert-system/hilbertd-1:10461_4be1", "machine_1:1_x", "a/b/c:1_d", "ns/x?y:1_z", "ns/x:01_z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, identity string) {
		h, err := ParseHolder(identity)
		if err != nil {
			return
		}
		for _, part := range []string{h.Namespace, h.Name} {
			if strings.ContainsFunc(part, func(r rune) bool {
				return r > unicode.MaxASCII || !strings.ContainsRune("-._", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
			}) {
				t.Errorf("%q reads as %+v", identity, h)
			}
		}
		if again, err := ParseHolder(h.String()); err != nil || again != h {
			t.Errorf("%q reads as %+v, which reads as %+v (%v)", identity, h, again, err)
		}
	})
}
