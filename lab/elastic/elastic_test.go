package elastic

import (
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

var (
	longFlag = flag.Bool("elastic.long", false, "play the long form: about 15 minutes")
	outFlag  = flag.String("elastic.out", "", "a directory for the result, the picture and the logs")
	percent  = flag.Float64("elastic.percent", 0, "of the reclaimed pods that may be evicted in a minute; 0: the default")
)

// Online pods have their cores back within seconds of needing them, on the nodes that see it; what is not vouched for gets nothing new; nobody is
// evicted who need not be. In the long form, who has to go runs elsewhere.
func TestElasticity(t *testing.T) {
	o, bounds := Short(), Bounds{Cores: 8}
	if *longFlag {
		o, bounds = Long(), Bounds{Cores: 8, Elsewhere: 900, Evictions: 6} // Resumed is not asked for: see docs/concepts/colocation.md, Elasticity
	}
	if *percent > 0 {
		o.Percent = *percent
	}
	dir := *outFlag
	if dir == "" {
		dir = t.TempDir()
	}
	o.Dir = dir
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	r.Options.Dir = ""
	r.Mistakes = Judge(r, bounds)
	for _, m := range r.Mistakes {
		t.Error(m)
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	figures, _ := json.Marshal(r.Figures)
	t.Logf("%s\nload of the machine (%d CPUs): %q", figures, r.CPUs, r.LoadAvg)
	for name, text := range map[string][]byte{"elastic.json": text, "elastic.svg": []byte(r.Picture())} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
