package profiles

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
)

// Every profile has its own weights over the default ones, and goes by the same prices.
func TestNew(t *testing.T) {
	cfg := spec.Default().Scheduling
	cfg.Scores = map[string]int64{"MostAllocated": 3}
	cfg.Profiles = []spec.SchedulingProfile{{Name: "a", Queues: []string{"q"}}, {Name: "b", Queues: []string{"r"}, Scores: map[string]int64{"MostAllocated": 4}}}
	s, err := New(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{spec.DefaultProfile, "a", "b"} {
		if s.Name(i) != name || s.weights[i].Market() != s.Market() {
			t.Errorf("profile %d is called %s, and has the shared market: %v", i, s.Name(i), s.weights[i].Market() == s.Market())
		}
	}
	cfg.Profiles[1].Scores = map[string]int64{"MostAlocated": 4}
	if _, err := New(&cfg); err == nil || !strings.HasPrefix(err.Error(), "scheduling.profiles[1].scores: MostAlocated: no such score") {
		t.Error(err)
	}
}
