package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience bounds one mutant's test, and its build.
const patience = 10 * time.Minute

// root is the repository.
const root = "../../.."

// TestMutants builds each mutant, and runs the test that has to fail.
func TestMutants(t *testing.T) {
	for _, m := range table {
		t.Run(strings.ReplaceAll(m.what, " ", "-"), func(t *testing.T) {
			changed, err := m.changed()
			if err != nil {
				t.Fatal(err)
			}
			if testing.Short() {
				return
			}
			binary, err := m.build(t.Context(), t.TempDir(), changed)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.fails(t.Context(), binary); err != nil {
				t.Error(err)
			}
		})
	}
}

// changed is the mutant's file.
func (m *mutant) changed() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.from)); n != 1 || m.from == m.to {
		return nil, fmt.Errorf("%s has %q %d times, want it once; name what holds the rule now", m.file, m.from, n)
	}
	return bytes.Replace(text, []byte(m.from), []byte(m.to), 1), nil
}

// build compiles the test with the changed file in the place of the one in the tree. A mutant that does not compile shows nothing.
func (m *mutant) build(ctx context.Context, dir string, changed []byte) (binary string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	place, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	instead, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {place: instead}})
	if err := errors.Join(err, os.WriteFile(instead, changed, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "test")
	module, pkg := m.module()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, pkg)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// module is the directory of the module in which the test is, and the test's package there.
func (m *mutant) module() (dir, pkg string) {
	if rest, lab := strings.CutPrefix(m.pkg, "./lab/"); lab {
		return filepath.Join(root, "lab"), "./" + rest
	}
	return root, m.pkg
}

// fails reports nil when the test fails, by itself and not for want of time.
func (m *mutant) fails(ctx context.Context, binary string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{"-test.run=^" + m.test + "$", "-test.failfast"}
	if m.property { // a counterexample is enough: it need be neither small nor kept
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1s")
	}
	run := exec.CommandContext(ctx, binary, args...)
	run.Dir = filepath.Join(root, m.pkg)
	out, err := run.CombinedOutput()
	tail := out[max(0, len(out)-2000):]
	switch exit, failed := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return fmt.Errorf("%s: %s passes all the same\n%s", m.what, m.test, tail)
	case ctx.Err() != nil || !failed || exit.ExitCode() < 0:
		return fmt.Errorf("%s: %s did not end: %w\n%s", m.what, m.test, err, tail)
	case !bytes.Contains(out, []byte("--- FAIL: "+m.test)) && !bytes.Contains(out, []byte("panic: ")):
		return fmt.Errorf("%s: it is not %s that fails: %w\n%s", m.what, m.test, err, tail)
	}
	return nil
}

// inTheTest marks checks in docs/security.md whose test takes the rule out of force by itself, and mutated those whose mutants are here.
const inTheTest, mutated = "in the test", "`make security-mutants`"

// row is a check: what it is, the tests, and what there is without the rule.
var row = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// TestEveryCheckHasAMutant: the seventeen checks of docs/security.md each say where they are shown to fail, and name the tests that the mutants here fail.
func TestEveryCheckHasAMutant(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## The seventeen checks\n")
	section, _, _ := strings.Cut(after, "\n## ")
	rows := row.FindAllStringSubmatch(section, -1)
	if !found || len(rows) < 2 {
		t.Fatal("docs/security.md has no table of the seventeen checks")
	}
	rows = rows[1:] // without the head
	if len(rows) > 0 && strings.HasPrefix(rows[0][1], "--") {
		rows = rows[1:]
	}
	if len(rows) != 17 {
		t.Errorf("docs/security.md has %d checks", len(rows))
	}
	shown := make([]bool, len(table))
	for _, r := range rows {
		here := false
		for i := range table {
			if !strings.HasPrefix(r[1], table[i].check) {
				continue
			}
			here, shown[i] = true, true
			if !strings.Contains(r[2], "`"+table[i].test+"`") {
				t.Errorf("%s: docs/security.md does not name %s, which a mutant fails", r[1], table[i].test)
			}
		}
		if says := strings.Contains(r[3], mutated); says != here {
			t.Errorf("%s: docs/security.md says that there are mutants here: %v; there are: %v", r[1], says, here)
		}
		if !here && !strings.Contains(r[3], inTheTest) {
			t.Errorf("%s: nothing shows that the test can fail", r[1])
		}
	}
	for i, has := range shown {
		if !has {
			t.Errorf("the mutant %q is of no check of docs/security.md", table[i].what)
		}
	}
}
