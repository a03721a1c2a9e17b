package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Source is what the doc comments of one package say.
type Source struct {
	Types  map[string]string            // a type's comment
	Fields map[string]map[string]string // a field's comment, by type and Go name
	Groups []Group                      // the constant declarations, in order of files and lines
	Funcs  map[string]string            // a function's comment
}

// Group is one declaration of constants.
type Group struct {
	Doc    string
	Consts []Const
}

// Const is a constant with the value that its literal has.
type Const struct{ Name, Value, Doc string }

// Read parses the package in a folder, given from the root of the tree, without its tests.
func Read(t testing.TB, folder string) *Source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Root(t), folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{Types: map[string]string{}, Fields: map[string]map[string]string{}, Funcs: map[string]string{}}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				s.declaration(d)
			case *ast.FuncDecl:
				s.Funcs[d.Name.Name] = line(d.Doc)
			}
		}
	}
	return s
}

func (s *Source) declaration(d *ast.GenDecl) {
	switch d.Tok {
	case token.TYPE:
		for _, spec := range d.Specs {
			s.typ(spec.(*ast.TypeSpec), d.Doc)
		}
	case token.CONST:
		g := Group{Doc: line(d.Doc)}
		for _, spec := range d.Specs {
			g.add(spec.(*ast.ValueSpec))
		}
		if len(g.Consts) > 0 {
			s.Groups = append(s.Groups, g)
		}
	default: // imports and variables are not in the reference
	}
}

func (s *Source) typ(spec *ast.TypeSpec, doc *ast.CommentGroup) {
	s.Types[spec.Name.Name] = line(doc, spec.Doc)
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	fields := map[string]string{}
	for _, f := range structure.Fields.List {
		for _, name := range f.Names {
			fields[name.Name] = line(f.Doc, f.Comment)
		}
	}
	s.Fields[spec.Name.Name] = fields
}

// add takes exported constants of text; others are no names that people write.
func (g *Group) add(spec *ast.ValueSpec) {
	if len(spec.Names) != 1 || len(spec.Values) != 1 || !spec.Names[0].IsExported() {
		return
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return
	}
	g.Consts = append(g.Consts, Const{Name: spec.Names[0].Name, Value: value, Doc: line(spec.Doc, spec.Comment)})
}

// line joins comments to one line.
func line(comments ...*ast.CommentGroup) string {
	var out []string
	for _, c := range comments {
		if c != nil {
			out = append(out, strings.Fields(c.Text())...)
		}
	}
	return strings.Join(out, " ")
}

// Prose turns the doc comment of a Go name into a sentence of a page: "MaxAhead bounds the decisions" becomes "Bounds the decisions", and
// names of constants and fields that it mentions become the texts that people write.
func (s *Source) Prose(name, doc string, names map[string]string) string {
	for _, start := range []string{name + " is ", name + " are ", name + ": ", name + ", ", name + " "} {
		if len(doc) > len(start) && strings.EqualFold(doc[:len(start)], start) {
			doc = doc[len(start):]
			break
		}
	}
	words := strings.Split(doc, " ")
	for i, word := range words {
		bare := strings.Trim(word, "().,;:")
		if text, ok := s.spelled(bare, names); ok {
			words[i] = strings.Replace(word, bare, "`"+text+"`", 1)
		}
	}
	doc = strings.Join(words, " ")
	if doc == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(doc)
	doc = string(unicode.ToUpper(first)) + doc[size:]
	if !slices.Contains([]string{".", ")", ":"}, doc[len(doc)-1:]) {
		doc += "."
	}
	return doc
}

func (s *Source) spelled(word string, names map[string]string) (string, bool) {
	if text, ok := names[word]; ok {
		return text, true
	}
	for _, g := range s.Groups {
		for _, c := range g.Consts {
			if c.Name == word {
				return c.Value, true
			}
		}
	}
	return "", false
}

// Row is a row of a table.
func Row(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// Table begins a table.
func Table(columns ...string) string {
	return Row(columns...) + strings.Repeat("|---", len(columns)) + "|\n"
}

// Code sets a text as code; nothing is a dash.
func Code(text string) string {
	if text == "" {
		return "–"
	}
	return "`" + text + "`"
}
