package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codePattern       = regexp.MustCompile("`([^`\n]+)`")
	identifierPattern = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}(\(\))?$`)
)

// otherWords begin configuration keys and the names of cgroup files.
var otherWords = []string{"scheduling", "cpuset", "memory", "cpu", "io"}

// TestArchitectureNames fails when docs/ARCHITECTURE.md names something in backticks that is not in the tree. Three forms are held:
//
//	`schedule/place`              a folder or file
//	`place.Placer.Place`          a package's declaration, or a method or field of its type; the package by its name
//	`Plan`                        a declaration of any package
//
// Configuration keys, kernel files, labels and commands are other words: what begins like one of otherWords, or has other characters, is not looked
// at.
func TestArchitectureNames(t *testing.T) {
	if testing.Short() {
		t.Skip("the names are held by the whole tests: a change may rename first, and mend the page last")
	}
	root := filepath.Join("..", "..")
	tr, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	declared := declarations(tr)
	for _, unknown := range unknownNames(root, prose(t, filepath.Join(root, "docs", "ARCHITECTURE.md")), declared) {
		t.Errorf("docs/ARCHITECTURE.md names %s, which is not in the tree: was it renamed or moved?", unknown)
	}
}

// TestUnknownNames holds the test above to names that are wrong.
func TestUnknownNames(t *testing.T) {
	declared := declared{"place": {"Placer": true, "Placer.Place": true}}
	text := "`place.Placer.Place`, `place.Placer.Plaice`, `place.Plaicer`, `Placer`, `Plaicer`, `internal/lint`, `internal/lent`, `plaice.Place`, `scheduling.seed`, `make test`"
	got := unknownNames(filepath.Join("..", ".."), text, declared)
	if want := "[place.Placer.Plaice place.Plaicer Plaicer internal/lent plaice.Place]"; fmt.Sprint(got) != want {
		t.Errorf("unknown are %v, want %s", got, want)
	}
}

// declared has, by the name of a package, what it declares: Name, and Type.Name for methods and fields.
type declared map[string]map[string]bool

func unknownNames(root, text string, known declared) (unknown []string) {
	for _, match := range codePattern.FindAllStringSubmatch(text, -1) {
		name := match[1]
		switch {
		case strings.HasPrefix(name, "/") || strings.ContainsAny(name, " :{}<>=*…"):
		case strings.Contains(name, "/"):
			if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
				continue // a label, or a module
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				unknown = append(unknown, name)
			}
		case identifierPattern.MatchString(name) && !known.has(strings.TrimSuffix(name, "()")):
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// has says whether a name is declared, or is none of a package's.
func (d declared) has(name string) bool {
	of, rest, dotted := strings.Cut(name, ".")
	if names, isPackage := d[of]; dotted && isPackage {
		return names[rest]
	}
	if dotted && slices.Contains(otherWords, of) {
		return true
	}
	if first := name[0]; !dotted && (first < 'A' || first > 'Z') {
		return true // an ordinary word
	}
	for _, names := range d {
		if names[name] {
			return true
		}
	}
	return false
}

func declarations(tr *tree) declared {
	all := declared{}
	for _, p := range tr.packages {
		names := all[p.name]
		if names == nil {
			names = map[string]bool{}
			all[p.name] = names
			if base := path.Base(p.dir); p.name == "main" {
				all[base] = names
			}
		}
		for _, f := range p.files {
			for _, d := range f.syntax.Decls {
				declare(d, names)
			}
		}
	}
	return all
}

func declare(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				members(s.Name.Name, s.Type, names)
			}
		}
	}
}

// members declares the fields of a struct and the methods of an interface.
func members(of string, t ast.Expr, names map[string]bool) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, n := range field.Names {
			names[of+"."+n.Name] = true
		}
	}
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
