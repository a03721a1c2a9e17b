package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// measuring are folders whose tests boot a machine of their own and measure it: what they say of seconds is what they are for.
var measuring = []string{"./lab/vm/..."}

// testDurations finds tests that fail because something took too long:
//
//	if took := time.Since(began); took > 5*time.Second {
//		t.Errorf(...)
//	}
//
// A loop that gives up waiting after a while is no such test, nor one in which synctest has the time stand still. Who must not wait is tested by what it would wait for.
func testDurations(t *tree) []breach {
	var out []breach
	for _, p := range t.packages {
		if matches(measuring, p.rel()) {
			continue
		}
		for _, f := range p.tests {
			out = append(out, f.durations(t)...)
		}
	}
	return out
}

func (f *file) durations(t *tree) (out []breach) {
	since := make(map[token.Pos]bool)
	for _, u := range uses(f, "time") {
		if u.name == "Since" {
			since[u.at] = true
		}
	}
	var stack []ast.Node
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if stmt, ok := n.(*ast.IfStmt); ok && tooLong(stmt, since) && fails(stmt.Body) && !slices.ContainsFunc(stack, mayMeasure) {
			out = append(out, breach{t.at(stmt.Pos()), "it fails when something takes too long"})
		}
		stack = append(stack, n)
		return true
	})
	return out
}

// tooLong says whether a condition is that a time since something is more than a bound.
func tooLong(stmt *ast.IfStmt, since map[token.Pos]bool) bool {
	names := make(map[string]bool) // of variables that hold such a time
	if init, ok := stmt.Init.(*ast.AssignStmt); ok && len(init.Lhs) == len(init.Rhs) {
		for i, value := range init.Rhs {
			if name, ok := init.Lhs[i].(*ast.Ident); ok && isSince(value, since) {
				names[name.Name] = true
			}
		}
	}
	found := false
	ast.Inspect(stmt.Cond, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.GTR || b.Op == token.GEQ) {
			name, _ := b.X.(*ast.Ident)
			found = found || isSince(b.X, since) || name != nil && names[name.Name]
		}
		return true
	})
	return found
}

func isSince(e ast.Expr, since map[token.Pos]bool) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && since[call.Fun.Pos()]
}

// fails says whether a block fails the test.
func fails(block *ast.BlockStmt) bool {
	found := false
	ast.Inspect(block, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			found = found || slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}, s.Sel.Name)
		}
		return true
	})
	return found
}

// mayMeasure says whether what is inside a node may fail for a time: a loop that waits, or a function whose time synctest has.
func mayMeasure(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ForStmt:
		return true
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "synctest" && strings.HasPrefix(s.Sel.Name, "Test")
	}
	return false
}
