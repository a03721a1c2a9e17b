package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ourModule begins the paths of our packages.
const ourModule = "hilbert.dev/hilbert/"

// decisionInputs are what the decisions of control/ read, which the shell fills: the types, and all that they are made of in their packages.
var decisionInputs = map[string][]string{
	"control/config": {"View"}, "control/recommend": {"View"}, "control/request": {"View", "Request"}, "control/reschedule": {"View", "Seen"},
	"control/tide": {"View"}, "control/vpa": {"View"}, "control/metrics": {"Pod", "Load"}, "control/forecast": {"Peak"},
}

// unfilled are types and fields that the shell does not fill, and why.
var unfilled = map[string]string{
	"control/recommend.Params":         "constants of the package",
	"control/recommend.Scale":          "constants of the package",
	"control/recommend.Recommendation": "what the decision before has made, which comes back to it",
	"control/recommend.Rollout":        "what the decision before has made, which comes back to it",
	"control/recommend.Before":         "what the decision before has made, which comes back to it",
	"control/reschedule.Seen.Partly":   "SeenGang adds it up",
}

// listed is a package of hilbertd, as go list has it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
	Module                  *struct{ Main bool }
}

// TestInputsAreFilled: a field that a decision reads and no shell fills is a rule that holds for nobody. It took a field of this kind (when a pod was moved last) a while to be noticed.
func TestInputsAreFilled(t *testing.T) {
	t.Parallel()
	w := &world{exports: make(map[string]string), fset: token.NewFileSet(), filled: make(map[types.Object]bool)}
	var ours []listed
	for _, p := range hilbertd(t) {
		w.exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	w.importer = importer.ForCompiler(w.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(w.exports[path]) })
	inputs := w.inputs(t)
	if len(inputs) < 50 {
		t.Fatalf("%d fields are found: want more", len(inputs))
	}
	for i := range ours {
		if err := w.read(&ours[i]); err != nil {
			t.Fatal(err)
		}
	}
	found := make(map[string]bool)
	for field, name := range inputs {
		of := name[:strings.LastIndexByte(name, '.')]
		if found[name], found[of] = true, true; !w.filled[field] && unfilled[name] == "" && unfilled[of] == "" {
			t.Errorf("%s is read by decisions, and nothing in hilbertd sets it: the shell has to, or it is no input", name)
		}
	}
	for name := range unfilled {
		if !found[name] {
			t.Errorf("%s is no field of an input", name)
		}
	}
}

// hilbertd lists the packages of it, compiled.
func hilbertd(t *testing.T) (list []listed) {
	t.Helper()
	var failed bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard,Module", "./cmd/hilbertd")
	command.Dir, command.Stderr = filepath.Join("..", ".."), &failed
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failed.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// world is what is known of fields.
type world struct {
	fset     *token.FileSet
	exports  map[string]string
	importer types.Importer
	filled   map[types.Object]bool
}

// inputs are the exported fields of decisionInputs, and their names.
func (w *world) inputs(t *testing.T) map[types.Object]string {
	t.Helper()
	out := make(map[types.Object]string)
	for path, names := range decisionInputs {
		p, err := w.importer.Import(ourModule + path)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[types.Type]bool)
		for _, name := range names {
			object := p.Scope().Lookup(name)
			if object == nil {
				t.Fatalf("%s has no %s", path, name)
			}
			fieldsOf(object.Type(), p, path, seen, out)
		}
	}
	return out
}

// fieldsOf adds the fields of a type and of all types of its package that it is made of.
func fieldsOf(of types.Type, p *types.Package, path string, seen map[types.Type]bool, out map[types.Object]string) {
	switch x := of.(type) {
	case *types.Pointer:
		fieldsOf(x.Elem(), p, path, seen, out)
	case *types.Slice:
		fieldsOf(x.Elem(), p, path, seen, out)
	case *types.Array:
		fieldsOf(x.Elem(), p, path, seen, out)
	case *types.Map:
		fieldsOf(x.Elem(), p, path, seen, out)
	case *types.Named:
		fields, ok := x.Underlying().(*types.Struct)
		if x.Obj().Pkg() != p || seen[x] || !ok {
			return
		}
		seen[x] = true
		for field := range fields.Fields() {
			if field.Exported() {
				out[field] = path + "." + x.Obj().Name() + "." + field.Name()
				fieldsOf(field.Type(), p, path, seen, out)
			}
		}
	}
}

// read notes which fields a package fills of types of others.
func (w *world) read(p *listed) error {
	var files []*ast.File
	uses := false
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(w.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		uses = uses || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return strings.HasPrefix(i.Path.Value, `"`+ourModule+"control/") })
		files = append(files, f)
	}
	if !uses {
		return nil
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection), Types: make(map[ast.Expr]types.TypeAndValue)}
	config := types.Config{Importer: w.importer, FakeImportC: true}
	if _, err := config.Check(p.ImportPath, w.fset, files, info); err != nil {
		return fmt.Errorf("%s: %w", p.ImportPath, err)
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CompositeLit:
				w.literal(x, info)
			case *ast.AssignStmt:
				for _, e := range x.Lhs {
					w.set(e, info)
				}
			case *ast.IncDecStmt:
				w.set(x.X, info)
			case *ast.UnaryExpr:
				if x.Op == token.AND {
					w.set(x.X, info)
				}
			}
			return true
		})
	}
	return nil
}

// literal notes the fields of a composite literal.
func (w *world) literal(x *ast.CompositeLit, info *types.Info) {
	of, ok := types.Unalias(info.Types[x].Type).Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range x.Elts {
		if pair, named := e.(*ast.KeyValueExpr); !named {
			w.filled[of.Field(i)] = true
		} else if key, ok := pair.Key.(*ast.Ident); ok {
			w.filled[info.Uses[key]] = true
		}
	}
}

// set notes the fields through which something is set.
func (w *world) set(e ast.Expr, info *types.Info) {
	switch x := e.(type) {
	case *ast.IndexExpr:
		w.set(x.X, info)
	case *ast.ParenExpr:
		w.set(x.X, info)
	case *ast.StarExpr:
		w.set(x.X, info)
	case *ast.SelectorExpr:
		s := info.Selections[x]
		if s == nil || s.Kind() != types.FieldVal {
			return
		}
		at := s.Recv()
		for _, i := range s.Index() { // embedded ones too
			if pointer, ok := at.Underlying().(*types.Pointer); ok {
				at = pointer.Elem()
			}
			field := at.Underlying().(*types.Struct).Field(i)
			w.filled[field] = true
			at = field.Type()
		}
		w.set(x.X, info)
	}
}
