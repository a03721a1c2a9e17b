package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tree is the source of every module under one root, parsed.
type tree struct {
	root     string
	packages []*pkg          // sorted by dir
	byPath   map[string]*pkg // by full import path
	external map[string][]string
	modules  map[string]string // dir of go.mod → module path
	pinned   []dependency
	docs     string // docs/dependencies.md, "" if absent
	fset     *token.FileSet
}

// pkg is one directory of Go files. Its name in rules is "./" + dir.
type pkg struct {
	dir   string // slash-separated, relative to the root
	path  string // full import path
	name  string // package clause
	files []*file
	tests []*file
}

type file struct {
	name      string // slash-separated, relative to the root
	syntax    *ast.File
	lines     int
	test      bool
	generated bool
}

// dependency is a module that a go.mod of the tree requires directly, or a
// tool that it names.
type dependency struct {
	module string
	place
}

// place is a line of a file; the file's name is relative to the root.
type place struct {
	file string
	line int
}

func (p *pkg) rel() string { return "./" + p.dir }

// testOnly says that nothing outside the package's own tests can use it.
func (p *pkg) testOnly() bool {
	for _, f := range p.files {
		for _, d := range f.syntax.Decls {
			if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
				return false
			}
		}
	}
	return true
}

// imports lists what the given files import, each path with its first place.
func (t *tree) imports(files []*file) (paths []string, at map[string]token.Pos) {
	at = map[string]token.Pos{}
	for _, f := range files {
		for _, spec := range f.syntax.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if _, seen := at[p]; err != nil || seen {
				continue
			}
			at[p] = spec.Pos()
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths, at
}

// rel turns a full import path into the name that rules use: "./dir" for a
// package of the tree, the path itself for any other.
func (t *tree) rel(importPath string) string {
	if p := t.byPath[importPath]; p != nil {
		return p.rel()
	}
	return importPath
}

func (t *tree) at(p token.Pos) place {
	pos := t.fset.Position(p)
	return place{pos.Filename, pos.Line}
}

// load parses every package under root. A directory with a go.mod starts a
// module; testdata, bin and names with a leading dot or underscore are skipped.
func load(root string) (*tree, error) {
	t := &tree{root: root, byPath: map[string]*pkg{}, modules: map[string]string{}, fset: token.NewFileSet()}
	byDir := map[string]*pkg{}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && skipped(d.Name()):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			return t.loadModule(rel)
		case d.IsDir() || !strings.HasSuffix(rel, ".go"):
			return nil
		}
		return t.loadFile(byDir, rel)
	})
	if err != nil {
		return nil, err
	}
	for dir, p := range byDir {
		p.path = t.importPath(dir)
		t.byPath[p.path] = p
		t.packages = append(t.packages, p)
	}
	slices.SortFunc(t.packages, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	docs, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	t.docs = string(docs)
	return t, t.loadExternal()
}

func skipped(name string) bool {
	return name == "testdata" || name == "bin" || name == "vendor" || name[0] == '.' || name[0] == '_'
}

// importPath joins dir to the module of the nearest go.mod above it.
func (t *tree) importPath(dir string) string {
	for at := dir; ; at = path.Dir(at) {
		if module, ok := t.modules[at]; ok {
			return path.Join(module, strings.TrimPrefix(strings.TrimPrefix(dir, at), "/"))
		}
		if at == "." {
			return dir
		}
	}
}

// loadModule reads a go.mod: its module path, what it requires directly, and
// its tools. The go command writes these lines, so their form is fixed.
func (t *tree) loadModule(rel string) error {
	data, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	block := ""
	for i, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) == 2 && words[1] == "(" {
			block = words[0]
			continue
		}
		if words[0] == ")" {
			block = ""
			continue
		}
		if block != "" {
			words = append([]string{block}, words...)
		}
		switch {
		case words[0] == "module":
			t.modules[path.Dir(rel)] = words[1]
		case words[0] == "tool", words[0] == "require" && !strings.HasSuffix(line, "// indirect"):
			t.pinned = append(t.pinned, dependency{words[1], place{rel, i + 1}})
		}
	}
	return nil
}

func (t *tree) loadFile(byDir map[string]*pkg, rel string) error {
	src, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, rel, src, parser.ParseComments)
	if err != nil {
		return err
	}
	f := &file{
		name: rel, syntax: syntax, test: strings.HasSuffix(rel, "_test.go"),
		lines:     t.fset.File(syntax.Pos()).LineCount(),
		generated: ast.IsGenerated(syntax),
	}
	p := byDir[path.Dir(rel)]
	if p == nil {
		p = &pkg{dir: path.Dir(rel), name: strings.TrimSuffix(syntax.Name.Name, "_test")}
		byDir[p.dir] = p
	}
	if f.test {
		p.tests = append(p.tests, f)
		return nil
	}
	p.name = syntax.Name.Name
	p.files = append(p.files, f)
	return nil
}

// loadExternal asks the go command what core's third-party packages import in
// their turn; source alone cannot tell. Other packages are judged by their
// direct imports, which spares a walk through client-go.
func (t *tree) loadExternal() error {
	t.external = map[string][]string{}
	args := []string{"list", "-e", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`}
	known := len(args)
	for _, p := range t.pure() {
		args = append(args, p.rel())
	}
	if len(args) == known {
		return nil
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list in %s: %w: %s", t.root, err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if t.byPath[words[0]] == nil {
			t.external[words[0]] = words[1:]
		}
	}
	return nil
}
