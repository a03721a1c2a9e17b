package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/whatif"
)

// What a snapshot of a running hilbertd says would be if.
func TestWhatIf(t *testing.T) {
	c := startCluster(t)
	snapshot, err := run(t.Context(), t, append([]string{"snapshot"}, c.hilbertd.Flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, pods := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "pods.yaml")
	manifest := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  template:
    spec:
      schedulerName: hilbert
      containers: [{name: c, resources: {requests: {cpu: "1"}}}]
`
	for path, text := range map[string]string{file: snapshot, pods: manifest} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t.Context(), t, "sim", "--from", file, "--add", pods)
	if exitcode.Of(err) != exitcode.Negative { // the answer is no
		t.Fatal(err)
	}
	for _, want := range []string{
		": 3 placed, 2 not.", "default/web-0  added  n1    -", "default/huge (waiting): 0/2 nodes are available", "default/web-3 (added): 0/2 nodes are available",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = run(t.Context(), t, "sim", "--from", file, "--drain", "n2", "-o", "json")
	if exitcode.Of(err) != exitcode.Negative {
		t.Fatal(err)
	}
	var f whatif.Forecast
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatal(err)
	}
	// The large pod was on n2 and fits nowhere else; the explanation comes along.
	if len(f.Placed) != 0 || len(f.Unplaced) != 2 || f.Nodes != 1 || f.Unplaced[0].Explanation == nil {
		t.Errorf("%s", out)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no snapshot": {[]string{"--add", pods}, "--from FILE"},
		"both":        {[]string{"--from", file, "--synthetic", "nodes=1,pods=1,classes=1"}, "none of the others can be"},
		"no pods":     {[]string{"--from", file, "--add", "/dev/null"}, "has no pods"},
		"no node":     {[]string{"--from", file, "--drain", "n9"}, "has no node n9"},
		"no score":    {[]string{"--from", file, "--scores", "Magic=1"}, "Magic"},
		"format":      {[]string{"--from", file, "-o", "yaml"}, "write table or json"},
	} {
		if _, err := run(t.Context(), t, append([]string{"sim"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
