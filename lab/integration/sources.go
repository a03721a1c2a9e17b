package integration

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// added are files that the copies have besides upstream's.
var added = map[string]string{"scheduler/outside.go": outsideText, "util/outside.go": outsideUtilText}

//go:embed outside.go.txt
var outsideText string

//go:embed outside_util.go.txt
var outsideUtilText string

// sourcesModule is the path of the module that holds the sources while they are run.
const sourcesModule = "hilbert.dev/hilbert/lab/integration/upstream"

// product is Hilbert's own module.
const product = "hilbert.dev/hilbert"

// copied are the packages of k8s.io/kubernetes that the tests come from and that they start their scheduler through. All others stay where they are.
var copied = []struct {
	// from is the package's path in k8s.io/kubernetes, to its directory in the module.
	from, to string
	// below says that the packages below it are copied, too. tests says that its tests are.
	below, tests bool
}{
	{from: "pkg/scheduler", to: "scheduler"},
	{from: "test/integration/util", to: "util"},
	{from: testsPath, to: "tests", below: true, tests: true},
}

// testsPath is where upstream's integration tests of scheduling are.
const testsPath = "test/integration/scheduler"

// maxOutput bounds what an error shows of a command's output, in bytes.
const maxOutput = 2000

// renamed is what the added files put in the place of upstream's: the file, and a function's beginning before and after.
var renamed = []struct{ file, before, after string }{
	{"scheduler/scheduler.go", "\nfunc New(ctx context.Context,", "\nfunc newInside(ctx context.Context,"},
	{"scheduler/scheduler.go", "\nfunc (sched *Scheduler) Run(ctx context.Context) {", "\nfunc (sched *Scheduler) runInside(ctx context.Context) {"},
	{"scheduler/schedule_one.go", "\nfunc (sched *Scheduler) ScheduleOne(ctx context.Context) {", "\nfunc (sched *Scheduler) scheduleOneInside(ctx context.Context) {"},
	{"util/util.go", "\nfunc SyncSchedulerInformerFactory(testCtx *TestContext) {", "\nfunc syncInside(testCtx *TestContext) {"},
}

// WriteSources writes a module into dir, which must not hold another one: upstream's integration tests of scheduling, from the sources of k8s.io/kubernetes in
// kubernetes, with a scheduler that can be told to run a program in its place. Its requirements are those of the module whose go.mod and go.sum are in requires.
// "go test -overlay" would do without copies, but it replaces nothing in the module cache.
func WriteSources(ctx context.Context, kubernetes, requires, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("old sources: %w", err)
	}
	texts := make(map[string]string)
	for _, c := range copied {
		if err := readPackages(filepath.Join(kubernetes, filepath.FromSlash(c.from)), c.to, c.below, c.tests, texts); err != nil {
			return fmt.Errorf("sources of k8s.io/kubernetes: %w", err)
		}
	}
	for _, r := range renamed {
		if n := strings.Count(texts[r.file], r.before); n != 1 {
			return fmt.Errorf("%s of k8s.io/kubernetes has %q %d times, want once: upstream has changed, and lab/integration has to follow",
				r.file, strings.TrimSpace(r.before), n)
		}
		texts[r.file] = strings.Replace(texts[r.file], r.before, r.after, 1)
	}
	for name, text := range added {
		if _, exists := texts[name]; exists {
			return fmt.Errorf("k8s.io/kubernetes has a file %s of its own", name)
		}
		texts[name] = text
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(requires, name))
		if err != nil {
			return fmt.Errorf("requirements: %w", err)
		}
		texts[name] = string(data)
	}
	for name, text := range texts {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("directory for sources: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write sources: %w", err)
		}
	}
	// The sources need no Hilbert, and its requirements may have kept others from being named.
	for _, args := range [][]string{
		{"mod", "edit", "-module=" + sourcesModule, "-droprequire=" + product, "-dropreplace=" + product}, {"list", "-mod=mod", "-deps", "-test", "./..."},
	} {
		command := exec.CommandContext(ctx, "go", args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("go.mod of the sources: go %s: %w: %s", args[0], err, out[:min(len(out), maxOutput)])
		}
	}
	return nil
}

// readPackages adds the Go files of a package under the name to, with imports of copied packages changed.
func readPackages(from, to string, below, tests bool, texts map[string]string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != from && !below:
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") && !tests:
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		texts[path.Join(to, filepath.ToSlash(relative))] = imports(string(data))
		return nil
	})
}

// imports has the imports of copied packages name the copies.
func imports(text string) string {
	for _, c := range copied {
		before, after := "k8s.io/kubernetes/"+c.from, sourcesModule+"/"+c.to
		text = strings.ReplaceAll(text, `"`+before+`"`, `"`+after+`"`)
		if c.below {
			text = strings.ReplaceAll(text, `"`+before+`/`, `"`+after+`/`)
		}
	}
	return text
}
