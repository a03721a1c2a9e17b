package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestColocation(t *testing.T) {
	dir := t.TempDir()
	tide, use, page := filepath.Join(dir, "qps.csv"), filepath.Join(dir, "use.csv"), filepath.Join(dir, "out.html")
	for path, text := range map[string]string{
		tide: "timestamp_anon,value,container_ip\n0,1,\n30000,4,\n60000,2,a\n86000,1,a\n",
		use:  "vm,t0,t1,t2\na,5,10,5\nb,20,60,20\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t.Context(), t, "sim", "colocation", "--tide", tide, "--use", use, "--nodes", "2", "--days", "0.03", "--no-ablations", "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		UtilisationBefore, UtilisationAfter *float64
		Setup                               struct{ Tide string }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if said.UtilisationBefore == nil || said.UtilisationAfter == nil || *said.UtilisationAfter <= 0 || !strings.Contains(said.Setup.Tide, "qps.csv") {
		t.Errorf("it says %s", out)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "</html>") {
		t.Errorf("the page: %v", err)
	}
}

func TestColocationSaysWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "write --tide FILE and --use FILE, or --synthetic",
		"--synthetic --tide x":               "leave them out with --synthetic",
		"--synthetic -o yaml":                "write table or json",
		"--synthetic --days 0":               "want more than 0",
		"--synthetic --nodes 0":              "0 nodes",
		"--synthetic --step 1500ms":          "whole seconds",
		"--synthetic --set targetUse=2":      "targetUse",
		"--synthetic --set speed=2":          "speed",
		"--tide missing.csv --use other.csv": "missing.csv",
		"--synthetic --jobs missing.csv":     "missing.csv",
	} {
		if _, err := run(t.Context(), t, append([]string{"sim", "colocation"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
