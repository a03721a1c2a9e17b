package configfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/document"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
)

func TestParseConfig(t *testing.T) {
	c, err := configfile.Parse([]byte("leaderElection: {leaseDuration: 30s}\nscheduling:\n  binding:\n    maxInFlight: 8\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.LeaderElection.LeaseDuration.D() != 30*time.Second || c.Scheduling.Binding.MaxInFlight != 8 || c.SchedulerName != "hilbert" {
		t.Errorf("got %+v", c)
	}
}

func TestBadConfigNamesTheFieldAndTheFix(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"unknown field":   {"scheduling: {binding: {maxInFligt: 8}}", `unknown field "scheduling.binding.maxInFligt"`},
		"wrong case":      {"Scheduling: {}", `unknown field "Scheduling"`},
		"twice":           {"schedulerName: a\nschedulerName: b\n", `"schedulerName" already set`},
		"no unit":         {"leaderElection: {leaseDuration: 15}", `want a string with a unit, for example "15s"`},
		"wrong type":      {"scheduling: {binding: {maxInFlight: many}}", "scheduling.binding.maxInFlight"},
		"not YAML":        {"a: [", "not valid YAML"},
		"other version":   {"apiVersion: config.hilbert.dev/v2", "write config.hilbert.dev/v1alpha1"},
		"contradiction":   {"leaderElection: {renewDeadline: 20s}", "leaderElection.leaseDuration"},
		"no write starts": {"scheduling: {binding: {writeTimeout: 9s}}", "scheduling.binding.writeTimeout"},
		"no such score":   {"scheduling: {scores: {Magic: 1}}", "Magic"},
		"nor there":       {"scheduling: {profiles: [{name: a, queues: [q], scores: {Magic: 1}}]}", "scheduling.profiles[0].scores.Magic"},
		"no such field":   {"scheduling: {profiles: [{name: a, queue: q}]}", `unknown field "scheduling.profiles[0].queue"`},
		"a removed field": {"node: {cpu: {forecast: {enabled: false}}}", "node.cpu.forecast: it was removed"},
		"no such rule":    {"node: {memory: {headroom: {growthReserv: 0.1}}}", `unknown field "node.memory.headroom.growthReserv"`},
		"zero is zero":    {"node: {memory: {headroom: {growthReserve: 0}}}", "node.memory.headroom.growthReserve: 0 % and"},
		"marks crossed":   {"node: {eviction: {memory: {soft: {share: 0.01}}}}", "node.eviction.memory.soft: share 0.01"},
		"several":         {"logging: {level: loud}\nserver: {}\nleaderElection: {retryPeriod: -1s}", "leaderElection.retryPeriod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hilbertd.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := configfile.Load(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	if _, err := configfile.Load("/no/such/file.yaml"); err == nil || !strings.Contains(err.Error(), "/no/such/file.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

func TestDeployedConfigIsValid(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "hilbertd.yaml: |\n")
	if !found {
		t.Fatal("deploy/config.yaml has no hilbertd.yaml")
	}
	if _, err := configfile.Parse([]byte(strings.ReplaceAll("\n"+text, "\n    ", "\n"))); err != nil {
		t.Error(err)
	}
}

// TestWarnings: a field that does nothing has its place and names the other field; for a NodeConfiguration, what the agent's file may say is not known.
func TestWarnings(t *testing.T) {
	text := []byte("roles: [agent]\nnode:\n  memoryBandwidth:\n    intensiveBytesPerSecond: 5000000000\n  cpu: {margin: 2}\n")
	c, err := configfile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const reason = "it has no effect while node.memoryBandwidth.groups is 0; change that, or leave it out"
	check := func(got []*document.Problem, want string) {
		t.Helper()
		if len(got) != 1 || got[0].Error() != want {
			t.Errorf("got %v\nwant %s", got, want)
		}
	}
	check(configfile.Warnings(text, c), "line 4, column 5: node.memoryBandwidth.intensiveBytesPerSecond: "+reason)
	text = []byte("apiVersion: node.hilbert.dev/v1alpha1\nkind: NodeConfiguration\nmetadata: {name: a}\nspec:\n  parameters:\n    memoryBandwidth: {intensiveBytesPerSecond: 5000000000}\n")
	n, err := configfile.ParseNodeConfiguration(text)
	if err != nil {
		t.Fatal(err)
	}
	check(configfile.NodeWarnings(text, n), "line 6, column 23: spec.parameters.memoryBandwidth.intensiveBytesPerSecond: where the agent's file does not say otherwise, "+reason)
}

// TestNothingShippedIsWithoutEffect: whoever starts with our files is not warned.
func TestNothingShippedIsWithoutEffect(t *testing.T) {
	count := 0
	for _, pattern := range []string{"deploy/*.yaml", "deploy/controller/*.yaml", "deploy/metrics/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(string(all), "\n---\n") {
				entries, _ := document.ConfigMapEntries([]byte(part))
				for _, e := range entries {
					if c, err := configfile.Parse([]byte(e.Text)); err == nil {
						count++
						for _, w := range configfile.Warnings([]byte(e.Text), c) {
							t.Errorf("%s: %v", file, w)
						}
					}
				}
			}
		}
	}
	if count < 5 {
		t.Errorf("%d files were read", count)
	}
}
