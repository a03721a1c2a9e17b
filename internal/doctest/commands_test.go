package doctest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	. "hilbert.dev/hilbert/internal/doctest"
)

// try runs a command of a page, or looks as closely at it as is possible without what it needs.
func (l *leader) try(t *testing.T, root string, c *Command) error {
	t.Helper()
	switch c.Program() {
	case "hilbert":
		return l.hilbert(t, c)
	case "hilbertd":
		return parses(daemon.NewCommand(), c.Args())
	case "hilbert-lab":
		return inReference(root, c.Args())
	case "make":
		return l.makes(root, c.Args())
	case "kubectl":
		return filesExist(c.Args(), "-f", "--filename", "-k")
	case "helm":
		return chartAndValues(root, c.Args())
	case "go":
		return goFolders(filepath.Join(root, c.Folder), c.Args())
	case "":
		return nil
	}
	return fmt.Errorf("the test knows no program %q; mark the block with <!-- not run: why -->", c.Program())
}

// hilbert runs the command in this process.
func (l *leader) hilbert(t *testing.T, c *Command) error {
	t.Helper()
	args := shortened(c.Args())
	found, rest, err := command.New().Find(args)
	if err != nil {
		return err
	}
	if err := parses(command.New(), args); err != nil {
		return err
	}
	if missing := missingTrace(rest); missing != "" {
		t.Logf("$ %s: only read, for %s is a public trace", c, missing)
		return nil
	}
	if found.Name() == "dashboard" { // it serves until it is ended
		t.Logf("$ %s: only read, for it does not end", c)
		return nil
	}
	asks := found.Flags().Lookup("kubeconfig") != nil && !slices.Contains(args, "--from")
	if asks {
		args = l.address(args, found)
	}
	out, err := l.run(t, args, asks)
	if err != nil && exitcode.Of(err) != exitcode.Negative { // an answer of no is an answer
		return fmt.Errorf("%w\n%s", err, out)
	}
	if c.Stdout != "" {
		return os.WriteFile(c.Stdout, out, 0o600)
	}
	return compare(c.Output, string(out), asks)
}

// run runs hilbert. A cluster needs a moment until it knows of everything that the pages ask about.
func (l *leader) run(t *testing.T, args []string, asks bool) (out []byte, err error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var buffer bytes.Buffer
		root := command.New()
		root.SetArgs(args)
		root.SetOut(&buffer)
		root.SetErr(&buffer)
		err = root.ExecuteContext(t.Context())
		if err == nil || exitcode.Of(err) == exitcode.Negative || !asks || time.Now().After(deadline) {
			return buffer.Bytes(), err
		}
	}
}

// address replaces the flags that say where the cluster is.
func (l *leader) address(args []string, found *cobra.Command) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--server", "--kubeconfig":
			i++
		case "--insecure-skip-tls-verify":
		default:
			out = append(out, args[i])
		}
	}
	out = append(out, "--kubeconfig", l.hilbertd.Kubeconfig)
	if found.Flags().Lookup("server") != nil {
		out = append(out, "--server", "https://"+l.hilbertd.Address, "--insecure-skip-tls-verify")
	}
	return out
}

var large = regexp.MustCompile(`\b(nodes|pods)=(\d+)\d\d\b`)

// shortened makes invented workloads of thousands a hundred times smaller.
func shortened(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		out[i] = large.ReplaceAllString(out[i], "$1=$2")
	}
	return out
}

// missingTrace names an argument that is a file of a public trace, and not here.
func missingTrace(args []string) string {
	for _, arg := range args {
		if strings.HasSuffix(arg, ".csv") || strings.HasSuffix(arg, ".tar.gz") {
			if _, err := os.Stat(arg); err != nil {
				return arg
			}
		}
	}
	return ""
}

// parses holds a command line against a program's commands, flags and rules for arguments.
func parses(root *cobra.Command, args []string) error {
	found, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := found.ParseFlags(rest); err != nil {
		return err
	}
	return errors.Join(found.ValidateArgs(found.Flags().Args()), found.ValidateRequiredFlags())
}

// inReference looks a command and its flags up in the reference page of hilbert-lab, for its code is in the other module.
func inReference(root string, args []string) error {
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "hilbert-lab.md"))
	if err != nil {
		return err
	}
	heading := "\n## hilbert-lab"
	var flags []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flag, _, _ := strings.Cut(arg, "=")
			flags = append(flags, flag)
		} else if next := heading + " " + arg; len(flags) == 0 && strings.Contains(string(text), next+"\n") {
			heading = next
		}
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		return fmt.Errorf("docs/reference/hilbert-lab.md has no %q", strings.TrimSpace(heading))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, flag := range flags {
		if !strings.Contains(section, " "+flag+" ") {
			return fmt.Errorf("%s has no flag %s", strings.TrimPrefix(strings.TrimSpace(heading), "## "), flag)
		}
	}
	return nil
}

// makes wants each target documented in the Makefile, and that make can say what it would do.
func (l *leader) makes(root string, args []string) error {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, target := range args {
		if strings.Contains(target, "=") {
			continue
		}
		documented := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:.*## `)
		if !documented.Match(text) {
			return fmt.Errorf("the Makefile has no target %s with a line of help", target)
		}
	}
	out, err := exec.Command("make", append([]string{"-n", "-C", root}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make -n: %w\n%s", err, out)
	}
	return nil
}

func filesExist(args []string, flags ...string) error {
	for i, arg := range args {
		if i+1 < len(args) && slices.Contains(flags, arg) && args[i+1] != "-" && !strings.Contains(args[i+1], "://") {
			if _, err := os.Stat(args[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// chartAndValues holds a helm command against the charts of the tree: the chart is there, and it has each value that --set names.
func chartAndValues(root string, args []string) error {
	var chart string
	for _, arg := range args {
		if strings.HasPrefix(arg, "deploy/charts/") {
			chart = filepath.Join(root, arg)
		}
	}
	if chart == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	for i, arg := range args {
		if arg != "--set" || i+1 == len(args) {
			continue
		}
		var values any
		if err := yaml.Unmarshal(text, &values); err != nil {
			return err
		}
		path, _, _ := strings.Cut(args[i+1], "=")
		for name := range strings.SplitSeq(path, ".") {
			fields, _ := values.(map[string]any) // what is no map has no fields
			value, ok := fields[name]
			if !ok {
				return fmt.Errorf("%s has no value %s", chart, path)
			}
			values = value
		}
	}
	return nil
}

func goFolders(folder string, args []string) error {
	for _, arg := range args {
		if path := strings.TrimSuffix(arg, "/..."); strings.HasPrefix(path, "./") {
			if _, err := os.Stat(filepath.Join(folder, path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare holds an output against what the page shows, in which "..." stands for any lines. Of a cluster's answer only the first line is held,
// for the page's cluster is another one.
func compare(shown, got string, asks bool) error {
	if strings.TrimSpace(shown) == "" {
		return nil
	}
	if asks {
		want, _, _ := strings.Cut(shown, "\n")
		is, _, _ := strings.Cut(got, "\n")
		if !slices.Equal(strings.Fields(want), strings.Fields(is)) {
			return fmt.Errorf("prints first\n%s\nand the page says\n%s", is, want)
		}
		return nil
	}
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimRight(shown, "\n") + "\n") {
		if text := strings.TrimSpace(line); text == "..." || text == "…" {
			pattern.WriteString(`(?:.*\n)*`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(strings.TrimRight(line, " \n")) + `[ ]*\n`)
		}
	}
	if matched := regexp.MustCompile(`^` + pattern.String() + `\n*$`).MatchString(got); !matched {
		return fmt.Errorf("prints\n%s\nand the page says\n%s", got, shown)
	}
	return nil
}
