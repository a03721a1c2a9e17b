package program_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/cmd/program"
)

// programs are what is tried.
var programs = map[string]func() *cobra.Command{"hilbert": command.New, "hilbertd": daemon.NewCommand}

// TestBadInputs holds what both programs say to what they cannot use, and with which code they end.
func TestBadInputs(t *testing.T) {
	b := bench{dir: t.TempDir(), address: "no server"}
	cases := 0
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				if err := os.WriteFile(filepath.Join(b.dir, d.CmdArgs[0].Key), []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			case "server": // an API server that answers everything so
				return b.serve(t, d)
			case "run":
				cases++
				return b.run(t, d.Input)
			}
			d.Fatalf(t, "%s is not known", d.Cmd)
			return ""
		})
	})
	if cases < 40 {
		t.Errorf("%d bad inputs are tried, want 40", cases)
	}
}

// bench is where commands run.
type bench struct{ dir, address string }

func (b *bench) serve(t *testing.T, d *datadriven.TestData) string {
	var code int
	d.ScanArgs(t, "code", &code)
	body := d.Input
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	b.address = server.URL
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n"
	if err := os.WriteFile(filepath.Join(b.dir, "kubeconfig"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

// version is that of the build.
var version = regexp.MustCompile(`(?m)^hilbert     .*$`)

func (b *bench) run(t *testing.T, line string) string {
	words := strings.Fields(strings.ReplaceAll(line, "DIR/", b.dir+"/"))
	root := programs[words[0]]()
	var out, errs bytes.Buffer
	root.SetArgs(words[1:])
	root.SetIn(strings.NewReader(""))
	root.SetOut(&out)
	root.SetErr(&errs)
	code := program.Run(context.WithoutCancel(t.Context()), root, &errs)
	text := strings.NewReplacer(b.dir+"/", "DIR/", b.dir, "DIR", b.address, "SERVER").Replace(out.String() + errs.String())
	return version.ReplaceAllString(text, "hilbert     VERSION") + fmt.Sprintf("exit %d %s\n", int(code), code)
}

// Every code is in the table once, with a name that String returns.
func TestTableOfCodes(t *testing.T) {
	seen := map[exitcode.Code]bool{}
	for _, row := range exitcode.Table() {
		if seen[row.Code] || row.Code.String() != row.Name || row.Meaning == "" || row.Example == "" {
			t.Errorf("%+v", row)
		}
		seen[row.Code] = true
	}
	if name := exitcode.Code(99).String(); name != "Code(99)" {
		t.Error(strconv.Quote(name))
	}
}
