package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// use is a mention of an imported package's member, as in time.Now.
type use struct {
	name string
	at   token.Pos
}

// dotImport stands for all members: nobody can tell where a bare name is from.
const dotImport = "* (a dot import)"

// uses lists the members of one package that a file mentions, under whatever
// name the file imports it. A local variable of the same name is none.
func uses(f *file, importPath string) []use {
	var out []use
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		local := path.Base(importPath)
		if local == "v2" {
			local = path.Base(path.Dir(importPath))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." {
			out = append(out, use{dotImport, spec.Pos()})
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && x.Obj == nil {
				out = append(out, use{sel.Sel.Name, sel.Pos()})
			}
			return true
		})
	}
	return out
}

// eachPureFile calls f for every file of core and of what core imports.
func (t *tree) eachPureFile(f func(*file)) {
	for _, p := range t.pure() {
		for _, file := range p.files {
			f(file)
		}
	}
}

// coreUses forbids members of one package in core.
func coreUses(importPath string, members ...string) func(*tree) []breach {
	return func(t *tree) []breach {
		var out []breach
		t.eachPureFile(func(f *file) {
			for _, u := range uses(f, importPath) {
				if slices.Contains(members, u.name) || u.name == dotImport {
					out = append(out, breach{t.at(u.at), importPath + "." + u.name})
				}
			}
		})
		return out
	}
}

// coreRand allows of math/rand/v2 what works on an explicit source, and
// nothing of the other generators.
func coreRand(t *tree) []breach {
	seeded := []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	out := all(
		neverImport(core, nil, "math/rand"),
		coreUses("hash/maphash", "MakeSeed", "Comparable", "WriteComparable", "Hash"),
	)(t)
	t.eachPureFile(func(f *file) {
		for _, u := range uses(f, "math/rand/v2") {
			if !slices.Contains(seeded, u.name) {
				out = append(out, breach{t.at(u.at), "math/rand/v2." + u.name + " draws from the global source"})
			}
		}
	})
	return out
}

func coreConcurrency(t *tree) []breach {
	out := neverImport(core, nil, "sync/...", "golang.org/x/sync/...")(t)
	t.eachPureFile(func(f *file) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				what = "a go statement"
			case *ast.ChanType:
				what = "a channel"
			case *ast.SelectStmt:
				what = "a select statement"
			case *ast.SendStmt:
				what = "a channel send"
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					what = "a channel receive"
				}
			}
			if what != "" {
				out = append(out, breach{t.at(n.Pos()), what})
			}
			return true
		})
	})
	return out
}

func corePrint(t *tree) []breach {
	out := coreUses("fmt", "Print", "Printf", "Println")(t)
	t.eachPureFile(func(f *file) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if fn, ok := call.Fun.(*ast.Ident); ok && fn.Obj == nil && (fn.Name == "print" || fn.Name == "println") {
				out = append(out, breach{t.at(call.Pos()), fn.Name})
			}
			return true
		})
	})
	return out
}

// drawers are names that say nothing about what a package provides.
var drawers = []string{"util", "utils", "common", "helper", "helpers", "base", "misc", "types", "shared", "lib"}

// drawerEnding catches podutil and its like.
var drawerEnding = regexp.MustCompile(`(utils?|helpers?|common)$`)

func packageNames(t *tree) []breach {
	var out []breach
	for _, p := range t.packages {
		for _, name := range []string{path.Base(p.dir), p.name} {
			if slices.Contains(drawers, name) || drawerEnding.MatchString(name) {
				out = append(out, breach{t.at(slices.Concat(p.files, p.tests)[0].syntax.Name.Pos()), "package " + name})
				break
			}
		}
	}
	return out
}

var sentenceEnd = regexp.MustCompile(`[.!?:]["')]*(\s|$)`)

func packageDocs(t *tree) []breach {
	var out []breach
	for _, p := range t.packages {
		if len(p.files) == 0 {
			continue // tests of nothing but themselves
		}
		var all strings.Builder
		at := p.files[0].syntax.Name.Pos()
		for _, f := range p.files {
			if f.syntax.Doc != nil {
				all.WriteString(f.syntax.Doc.Text() + "\n")
				at = f.syntax.Name.Pos()
			}
		}
		doc := all.String()
		sentences, words := len(sentenceEnd.FindAllString(doc, -1)), len(strings.FieldsFunc(doc, unicode.IsSpace))
		if sentences < minDocSentences || words < minDocWords {
			out = append(out, breach{t.at(at), fmt.Sprintf("package %s introduces itself in %d sentences and %d words", p.name, sentences, words)})
		}
	}
	return out
}

// eachFile calls f for every file that people write.
func (t *tree) eachFile(f func(*file)) {
	for _, p := range t.packages {
		for _, file := range slices.Concat(p.files, p.tests) {
			if !file.generated {
				f(file)
			}
		}
	}
}

func fileLines(t *tree) []breach {
	var out []breach
	t.eachFile(func(f *file) {
		limit := maxFileLines
		if f.test {
			limit = maxTestFileLines
		}
		if f.lines > limit {
			out = append(out, breach{place{f.name, limit}, fmt.Sprintf("%d lines, at most %d", f.lines, limit)})
		}
	})
	return out
}

func funcLines(t *tree) []breach {
	var out []breach
	t.eachFile(func(f *file) {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if lines > maxFuncLines {
				out = append(out, breach{t.at(fn.Pos()), fmt.Sprintf("func %s has %d lines, at most %d", fn.Name.Name, lines, maxFuncLines)})
			}
		}
	})
	return out
}

var (
	todo          = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	todoWithIssue = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\(#[0-9]+\)`)
)

func todos(t *tree) []breach {
	var out []breach
	t.eachFile(func(f *file) {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if mark := todo.FindString(c.Text); mark != "" && !todoWithIssue.MatchString(c.Text) {
					out = append(out, breach{t.at(c.Pos()), mark + " names no issue"})
				}
			}
		}
	})
	return out
}
