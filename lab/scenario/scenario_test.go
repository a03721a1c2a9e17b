package scenario

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/internal/scenario"
)

var files = flag.String("scenarios", "", "play only these files: names without .scn, with commas between them")

// short are the files of the short form: gangs, topology, queues, reclaiming with a restart in the middle of it.
var short = []string{"gang-waits", "nested", "rack-required", "queue-weights", "restart"}

func chosen(name string) bool {
	name = strings.TrimSuffix(name, ".scn")
	switch {
	case *files != "":
		return slices.Contains(strings.Split(*files, ","), name)
	case testing.Short():
		return slices.Contains(short, name)
	}
	return true
}

// TestScenarios: every file of the simulator that the lab can play prints the same on a real API server.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "sim", "testdata", "scenarios", "*.scn"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "hilbertd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	stage, err := NewStage(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, path := range paths {
		if chosen(filepath.Base(path)) {
			t.Run(filepath.Base(path), func(t *testing.T) { play(t, stage, path, log) })
		}
	}
}

func play(t *testing.T, stage *Stage, path string, log *os.File) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := scenario.Parse(filepath.Base(path), string(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if h.SimOnly != "" {
		t.Skip("sim only: " + h.SimOnly)
	}
	from, err := log.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	printed, err := stage.Play(t.Context(), f, h)
	t.Logf("%s, pace %g", time.Since(start).Round(time.Millisecond), h.Pace)
	if err != nil {
		t.Error(err)
	}
	if why := f.Differs(printed); why != "" {
		t.Error(why)
	}
	if t.Failed() {
		said, _ := os.ReadFile(log.Name())
		said = said[min(int(from), len(said)):]
		t.Logf("hilbertd:\n%s", said[max(0, len(said)-3000):])
	}
}
