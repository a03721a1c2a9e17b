package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// boundsPage says of each bound on how much is kept what tells that it is reached.
const boundsPage = "docs/reference/bounds.md"

var (
	boundName = regexp.MustCompile(`^[mM]ax[A-Z]`)
	boundRow  = regexp.MustCompile("^\\| `([a-z/]+\\.[mM]ax\\w+)` \\| [^|]+ \\| ([^|]+) \\|$")
	metricRef = regexp.MustCompile("`(hilbert_\\w+)`")
)

// TestBoundsAreTold: each constant by which something is cut short or refused a place is in docs/reference/bounds.md, with what tells that it is reached, and each metric there exists. So a
// new bound fails the test until somebody says how an administrator sees it.
func TestBoundsAreTold(t *testing.T) {
	t.Parallel()
	tr, err := load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found := boundsOf(tr)
	if len(found) < 60 {
		t.Errorf("%d bounds were found", len(found))
	}
	page, err := os.ReadFile(filepath.Join(tr.root, boundsPage))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile(filepath.Join(tr.root, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		row := boundRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		told[row[1]] = true
		for _, name := range metricRef.FindAllStringSubmatch(row[2], -1) {
			if !strings.Contains(string(metrics), "`"+name[1]+"`") {
				t.Errorf("%s: %s names %s, which is no metric", boundsPage, row[1], name[1])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !told[name] {
			at := tr.at(found[name])
			t.Errorf("%s:%d: %s bounds how much is kept or done: add it to %s with what tells that it is reached", at.file, at.line, name, boundsPage)
		}
	}
	for name := range told {
		if _, ok := found[name]; !ok {
			t.Errorf("%s has %s, which is no such bound any more", boundsPage, name)
		}
	}
}

// boundsOf are the constants by which lengths are compared or cut, in what runs as hilbertd, by package and name.
func boundsOf(t *tree) map[string]token.Pos {
	out := make(map[string]token.Pos)
	for _, p := range t.packages {
		if top, _, _ := strings.Cut(p.dir, "/"); !slices.Contains([]string{"cluster", "control", "kube", "node", "resource", "schedule", "topology"}, top) && !strings.HasPrefix(p.dir, "cmd/hilbertd") {
			continue
		}
		own := constants(p)
		for _, f := range p.files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				sides := compared(n)
				if !slices.ContainsFunc(sides, measures) {
					return true
				}
				for _, side := range sides {
					if name, at, ok := own.named(side); ok {
						out[strings.TrimPrefix(p.dir, "cmd/hilbertd/")+"."+name] = at
					}
				}
				return true
			})
		}
	}
	return out
}

// compared are the two sides of len(x) >= maxX, and the arguments of min(len(x), maxX).
func compared(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ || n.Op == token.EQL {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "min" {
			return n.Args
		}
	}
	return nil
}

// measures reports whether an expression has a length in it.
func measures(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, ok := call.Fun.(*ast.Ident)
			found = found || ok && name.Name == "len"
		}
		return !found
	})
	return found
}

// consts are a package's constants that are named like bounds.
type consts map[string]token.Pos

func constants(p *pkg) consts {
	out := make(consts)
	for _, f := range p.files {
		for _, d := range f.syntax.Decls {
			if group, ok := d.(*ast.GenDecl); ok && group.Tok == token.CONST {
				for _, s := range group.Specs {
					for _, name := range s.(*ast.ValueSpec).Names {
						if boundName.MatchString(name.Name) {
							out[name.Name] = name.Pos()
						}
					}
				}
			}
		}
	}
	return out
}

// named is the first of these constants in an expression.
func (c consts) named(e ast.Expr) (name string, at token.Pos, ok bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && !ok {
			if pos, known := c[id.Name]; known {
				name, at, ok = id.Name, pos, true
			}
		}
		return !ok
	})
	return name, at, ok
}
