package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// neverImport forbids direct imports of what is forbidden in the packages
// under from, except those under except. Core patterns take in what core
// imports of the vocabulary too.
func neverImport(from, except []string, forbidden ...string) func(*tree) []breach {
	return func(t *tree) []breach {
		var out []breach
		for _, p := range t.under(from) {
			if matches(except, p.rel()) {
				continue
			}
			paths, at := t.imports(p.files)
			for _, path := range paths {
				if matches(forbidden, t.rel(path)) {
					out = append(out, breach{t.at(at[path]), fmt.Sprintf("%s imports %s", p.rel(), t.rel(path))})
				}
			}
		}
		return out
	}
}

// floors forbids each of the packages to import one that stands after it, directly or through others.
func floors(names []string) func(*tree) []breach {
	checks := make([]func(*tree) []breach, 0, len(names))
	for i := range names[:len(names)-1] {
		checks = append(checks, neverReach(names[i:i+1], names[i+1:]...))
	}
	return all(checks...)
}

// neverReach forbids whatever the packages under from import, directly or
// through others. The breach stands at the import where the chain leaves.
func neverReach(from []string, forbidden ...string) func(*tree) []breach {
	return func(t *tree) []breach {
		var out []breach
		for _, p := range t.under(from) {
			paths, at := t.imports(p.files)
			for _, path := range paths {
				if chain := t.chain(path, from, forbidden); chain != nil {
					out = append(out, breach{t.at(at[path]), fmt.Sprintf("%s → %s", p.rel(), strings.Join(chain, " → "))})
				}
			}
		}
		return out
	}
}

// chain finds the shortest way from one import to something forbidden. It
// does not lead through packages under own: those answer for themselves.
func (t *tree) chain(start string, own, forbidden []string) []string {
	cameFrom := map[string]string{start: ""}
	for todo := []string{start}; len(todo) > 0; todo = todo[1:] {
		path := todo[0]
		if matches(forbidden, t.rel(path)) {
			var out []string
			for ; path != ""; path = cameFrom[path] {
				out = append(out, t.rel(path))
			}
			slices.Reverse(out)
			return out
		}
		if matches(own, t.rel(path)) {
			continue
		}
		for _, next := range t.importsOf(path) {
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = path
				todo = append(todo, next)
			}
		}
	}
	return nil
}

// importsOf answers for packages of the tree and for core's third-party ones.
func (t *tree) importsOf(path string) []string {
	p := t.byPath[path]
	if p == nil {
		return t.external[path]
	}
	paths, _ := t.imports(p.files)
	return paths
}

// under lists the packages that patterns name; core stands for the pure ones.
func (t *tree) under(patterns []string) []*pkg {
	if slices.Equal(patterns, core) {
		return t.pure()
	}
	var out []*pkg
	for _, p := range t.packages {
		if matches(patterns, p.rel()) {
			out = append(out, p)
		}
	}
	return out
}

// pure lists core and every package of the vocabulary that core really
// imports: impurity must not hide one import away.
func (t *tree) pure() []*pkg {
	seen := map[*pkg]bool{}
	var visit func(p *pkg)
	visit = func(p *pkg) {
		if seen[p] {
			return
		}
		seen[p] = true
		paths, _ := t.imports(p.files)
		for _, path := range paths {
			if next := t.byPath[path]; next != nil && matches(vocabulary, next.rel()) {
				visit(next)
			}
		}
	}
	for _, p := range t.packages {
		if matches(core, p.rel()) {
			visit(p)
		}
	}
	return slices.DeleteFunc(slices.Clone(t.packages), func(p *pkg) bool { return !seen[p] })
}

// eachImport calls f for what the given packages import of the tree.
func (t *tree) eachImport(packages []*pkg, f func(from, to *pkg, at place)) {
	for _, p := range packages {
		paths, at := t.imports(p.files)
		for _, path := range paths {
			if to := t.byPath[path]; to != nil {
				f(p, to, t.at(at[path]))
			}
		}
	}
}

func coreInward(t *tree) []breach {
	var out []breach
	t.eachImport(t.pure(), func(from, to *pkg, at place) {
		if !matches(core, to.rel()) && !matches(vocabulary, to.rel()) {
			out = append(out, breach{at, fmt.Sprintf("%s imports %s, which is neither core nor vocabulary", from.rel(), to.rel())})
		}
	})
	return out
}

func rolesApart(t *tree) []breach {
	var out []breach
	for i, role := range roles {
		var others []string
		for j, other := range roles {
			if j != i {
				others = append(others, other...)
			}
		}
		out = append(out, neverReach(role, others...)(t)...)
	}
	return out
}

// crd says whether a name is a CRD group: below api, and not spec.
func crd(name string) bool {
	return matches(crds, name) && !matches([]string{"./api", "./api/spec/...", "./api/nodeplugin/..."}, name)
}

func crdsAtTheDoor(t *tree) []breach {
	allowed := join([]string{"./cmd/...", "./lab/..."}, kubeDoor, generation)
	var out []breach
	t.eachImport(t.packages, func(from, to *pkg, at place) {
		if crd(to.rel()) && !crd(from.rel()) && !matches(allowed, from.rel()) {
			out = append(out, breach{at, fmt.Sprintf("%s imports %s", from.rel(), to.rel())})
		}
	})
	return out
}

func specStdOnly(t *tree) []breach {
	spec := []string{"./api/spec/..."}
	var out []breach
	for _, p := range t.under(spec) {
		paths, at := t.imports(p.files)
		for _, path := range paths {
			if rel := t.rel(path); !standard(path) && !matches(spec, rel) {
				out = append(out, breach{t.at(at[path]), fmt.Sprintf("%s imports %s", p.rel(), rel)})
			}
		}
	}
	return out
}

// standard says whether an import path is the standard library's: the first
// element of any other has a dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// importers maps each package of the tree to who imports it, tests apart.
func (t *tree) importers(tests bool) map[string][]*pkg {
	out := map[string][]*pkg{}
	for _, p := range t.packages {
		files := p.files
		if tests {
			files = p.tests
		}
		paths, _ := t.imports(files)
		for _, path := range paths {
			if path != p.path {
				out[path] = append(out[path], p)
			}
		}
	}
	return out
}

func orphans(t *tree) []breach {
	byCode, byTests := t.importers(false), t.importers(true)
	var out []breach
	for _, p := range t.packages {
		if p.name == "main" || p.testOnly() || len(byCode[p.path]) > 0 {
			continue
		}
		what := "nothing imports " + p.rel()
		if len(byTests[p.path]) > 0 {
			if t.testSupport(p) {
				continue
			}
			what = "only tests import " + p.rel()
		}
		out = append(out, breach{t.at(p.files[0].syntax.Name.Pos()), what})
	}
	return out
}

// testSupport says that a package marks itself as such: by its name, as httptest
// does, by taking a testing.TB or by driving transcripts.
func (t *tree) testSupport(p *pkg) bool {
	if strings.HasSuffix(p.name, "test") {
		return true
	}
	paths, _ := t.imports(p.files)
	return slices.ContainsFunc(paths, func(path string) bool {
		return matches([]string{"testing/...", "github.com/cockroachdb/datadriven", "pgregory.net/rapid"}, path)
	})
}

func testingInProduct(t *tree) []breach {
	byCode := t.importers(false)
	var out []breach
	for _, p := range t.packages {
		if !t.testSupport(p) {
			continue
		}
		for _, by := range byCode[p.path] {
			if !t.testSupport(by) {
				_, at := t.imports(by.files)
				out = append(out, breach{t.at(at[p.path]), fmt.Sprintf("%s imports %s, which is test support", by.rel(), p.rel())})
			}
		}
		if p.name == "main" {
			out = append(out, breach{t.at(p.files[0].syntax.Name.Pos()), p.rel() + " is a command and imports testing"})
		}
	}
	return out
}

func dependencyRows(t *tree) []breach {
	taken, refused := t.dependencyTables()
	own := slices.Collect(maps.Values(t.modules))
	var out []breach
	for _, d := range t.pinned {
		switch {
		case slices.Contains(own, d.module):
		case !slices.ContainsFunc(taken, d.answers):
			out = append(out, breach{d.place, d.module + " has no row with a reason"})
		case slices.ContainsFunc(refused, d.answers):
			out = append(out, breach{d.place, d.module + " is among those that were not taken"})
		}
	}
	for _, row := range taken {
		if !slices.ContainsFunc(t.pinned, func(d dependency) bool { return d.answers(row) }) {
			out = append(out, breach{row.place, "no go.mod requires " + row.module})
		}
	}
	return out
}

// answers reports whether a row is about the module.
func (d dependency) answers(row dependency) bool { return matches([]string{row.module}, d.module) }

// dependencyTables are the rows with a reason: those of what was taken, and those below a heading that says "not taken".
func (t *tree) dependencyTables() (taken, refused []dependency) {
	list, number := &taken, 0
	for line := range strings.Lines(t.docs) {
		number++
		if strings.HasPrefix(line, "#") {
			list = &taken
			if strings.Contains(line, "not taken") {
				list = &refused
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[len(cells)-2]) == "" {
			continue // not a row, or one without a reason
		}
		for i, code := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				*list = append(*list, dependency{code, place{"docs/dependencies.md", number}})
			}
		}
	}
	return taken, refused
}
