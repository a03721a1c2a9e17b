package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// recordNode writes four minutes of a node whose online pods come back after two.
func recordNode(t *testing.T) string {
	t.Helper()
	p, m := advise.Defaults(), advise.State{}
	p.RiseAfter = time.Minute
	p.TargetUse, p.Margin, p.MarginShare, p.RequestShare, p.CPUReserve = 0.55, 1, 0, 0.2, 0.02
	o := &advise.Observation{
		Wall: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Node: advise.Node{CPUPressure: advise.Known(0)},
		Reclaimed: []advise.Reclaimed{{ID: "default/batch"}},
		NUMANodes: []advise.NUMANode{{Divisible: 32, Threads: 2, SharedUse: advise.Known(4), SharedDelay: advise.Known(0), SharedRequests: advise.Known(20)}},
	}
	var b bytes.Buffer
	r, err := advise.NewRecorder(&b, &p, &m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 240 {
		if i == 120 {
			o.NUMANodes[0].SharedUse = advise.Known(12)
		}
		o.At, o.Wall = o.At+time.Second, o.Wall.Add(time.Second)
		a := advise.Step(o, &p, &m)
		if err := r.Record(o, &a); err != nil {
			t.Fatal(err)
		}
		o.NUMANodes[0].Lent = 2 * a.NUMANodes[0].Lend
	}
	return b.String()
}

func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runReplay(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	c := New()
	c.SetArgs(append([]string{"node", "replay"}, args...))
	c.SetOut(&out)
	c.SetErr(&errs)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestReplayTable(t *testing.T) {
	file := fileOf(t, recordNode(t))
	out, err := runReplay(t, file)
	if err != nil {
		t.Fatal(err)
	}
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"03:00:31 32 0 lend 1 cores 4 cores Step",  // a quarter of the fifteen that are left, after 30 s
		"03:02:01 122 0 lend 11 cores 4 cores Use", // given back in the tick
		"0 cpu 0.0 CPUs 23.1 CPUs Use", "240 ticks, 2026-11-20 03:00:01 to 2026-11-20 03:04:00; 0 of 240 differ from the record",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// With other parameters it goes another way, and what the record has stands beside it.
func TestReplayParams(t *testing.T) {
	file := fileOf(t, recordNode(t))
	out, err := runReplay(t, file, "-o", "json", "--params", "lendStep=0.5", "--params", "shrinkAfter=10s", "--limit", "3")
	if err != nil {
		t.Fatal(err)
	}
	var got replayed
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(got.Changes, func(c replayedChange) bool { return c.What == "lend" && c.From == "1" })
	if len(got.Changes) != 3 || got.All <= 3 || got.Different == 0 || got.Compared != 240 {
		t.Errorf("%+v", got)
	}
	if i < 0 || got.Changes[i].To != "8" || got.Changes[i].Recorded != "1" {
		t.Errorf("half of the fifteen cores that are left are not lent at once: %+v", got.Changes)
	}
}

// A configuration file gives the laws what it would give an agent; --params change single ones of those.
func TestReplayConfig(t *testing.T) {
	file := fileOf(t, recordNode(t))
	lent := func(args ...string) string {
		t.Helper()
		out, err := runReplay(t, append(args, file, "-o", "json")...)
		var got replayed
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		i := slices.IndexFunc(got.Changes, func(c replayedChange) bool { return c.What == "lend" && c.From == "1" })
		if err != nil || i < 0 {
			t.Fatalf("%v, %+v", err, got)
		}
		return got.Changes[i].To
	}
	config := fileOf(t, "roles: [agent]\nnode: {lending: {step: 10}}\n")
	if tenth, half := lent("--config", config), lent("--config", config, "--params", "lendStep=0.5"); tenth != "2" || half != "8" {
		t.Errorf("a tenth of the fifteen cores that are left makes %s, half of them %s", tenth, half)
	}
	bad := fileOf(t, "node: {memory: {headroom: {growthReserve: 0.01}}}")
	if _, err := runReplay(t, file, "--config", bad); err == nil || !strings.Contains(err.Error(), "raise growthReserve to 8 %") {
		t.Errorf("got %v", err)
	}
}

// A mistake is told with its place.
func TestReplayMistakes(t *testing.T) {
	good := recordNode(t)
	lines := strings.SplitAfter(good, "\n")
	for _, c := range []struct {
		name, text string
		args       []string
		want       string
	}{
		{"empty", "", nil, "it is empty"},
		{"header", "{}\n", nil, `line 1: format "" is not "hilbert-node/2"`},
		{"other", strings.Replace(good, "hilbert-node/2", "hilbert-node/1", 1), nil, `"hilbert-node/1" is not`},
		{"cut", good[:len(good)-20], nil, "line 241: it is cut short"},
		{"input", lines[0] + strings.Replace(lines[1], `"sharedUse"`, `"cpuUse"`, 1), nil, `line 2: json: unknown field "cpuUse"`},
		{"long", lines[0] + lines[1] + strings.Repeat(" ", advise.MaxLine+1) + "\n", nil, "line 3 is longer than"},
		{"none", lines[0] + "{}\n", nil, "line 2: it has no observation"},
		{"bounds", strings.Replace(good, `"targetUse":0.55`, `"targetUse":7`, 1), nil, "line 1: advise: bad parameter: targetUse is 7, want 0.05 to 1"},
		{"name", good, []string{"--params", "targetUsage=1"}, `"targetUsage" is not known`},
		{"word", good, []string{"--params", "riseAfter=soon"}, "riseAfter"},
		{"form", good, []string{"--params", "riseAfter"}, "want NAME=VALUE"},
		{"output", good, []string{"-o", "xml"}, "write table or json"},
		{"limit", good, []string{"--limit", "-1"}, "--limit -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := runReplay(t, append(c.args, fileOf(t, c.text))...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.name == "cut" && !strings.Contains(out, "239 ticks") {
				t.Errorf("what can be read is not shown:\n%s", out)
			}
		})
	}
	if _, err := runReplay(t, filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("a file that is not there is replayed")
	}
}
