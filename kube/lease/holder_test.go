package lease

import (
	"log/slog"
	"testing"
	"time"

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
	for _, identity := range []string{"", "kube-scheduler", "a:b_c", "a:99999_c"} {
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
