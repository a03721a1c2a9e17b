package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScenario: what happened is printed as the file again; what the file wants and does not find is told with its line.
func TestScenario(t *testing.T) {
	path := filepath.Join(t.TempDir(), "story.scn")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	story := "nodes n count=1 cpu=4\n\npods a/b count=3 cpu=2\nrun 1m\n----\npods a/b: 2/3 bound (Unschedulable)\n"
	write(story)
	if out, err := run(t.Context(), t, "sim", "--scenario", path); err != nil || out != story {
		t.Errorf("%v, printed:\n%s", err, out)
	}
	write(strings.Replace(story, "2/3", "3/3", 1))
	if out, err := run(t.Context(), t, "sim", "--scenario", path); err == nil || out != story || !strings.Contains(err.Error(), "story.scn:3: found") {
		t.Errorf("%v, printed:\n%s", err, out)
	}
	write("dance\n")
	if _, err := run(t.Context(), t, "sim", "--scenario", path); err == nil || !strings.HasPrefix(err.Error(), "story.scn:1: dance: no such command") {
		t.Errorf("got %v", err)
	}
	for _, args := range [][]string{{"--seeds", "2"}, {"--from", "x"}, {"--synthetic", "nodes=1,pods=1,classes=1"}, {"-o", "json"}} {
		if _, err := run(t.Context(), t, append([]string{"sim", "--scenario", path}, args...)...); err == nil || !strings.Contains(err.Error(), "--scenario FILE") {
			t.Errorf("%v: got %v", args, err)
		}
	}
	if _, err := run(t.Context(), t, "sim", "--scenario", path+"s"); err == nil {
		t.Error("a file that does not exist is played")
	}
}
