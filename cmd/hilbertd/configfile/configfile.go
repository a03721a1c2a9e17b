// Package configfile reads a configuration file of hilbertd, for hilbertd and for the programs that show what it would do: hilbert node replay and hilbert sim.
//
// Data flow: YAML or JSON is decoded strictly onto spec.New, completed by spec.Complete, and checked by spec.Validate and by the table of scores. An error names the
// file, line and column, the field and the fix, and the word that was probably meant.
//
// What always holds: no field is passed over, and a 0 that is written means 0 and never the default. The package knows no default of its own.
package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/document"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/internal/nearest"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/profiles"
)

// maxConfigBytes bounds a configuration file.
const maxConfigBytes = 1 << 20

// Load reads, completes and checks a configuration file; an empty path gives the defaults. Errors name the file, the field and
// what to write instead.
func Load(path string) (*spec.Configuration, error) {
	if path == "" {
		return spec.Default(), nil
	}
	data, err := read(path)
	if err != nil {
		return nil, exitcode.Mark(exitcode.BadInput, fmt.Errorf("read the configuration: %w", err))
	}
	c, err := Parse(data)
	if err != nil {
		return nil, exitcode.BadInputf("configuration %s: %w", path, err)
	}
	return c, nil
}

// read reads a file that is not too large.
func read(path string) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return document.ReadAtMost(file, path, maxConfigBytes)
}

// Parse is Load for bytes: YAML or JSON. Every field must be known and may occur once. The error names every mistake, with its line and column.
func Parse(data []byte) (*spec.Configuration, error) {
	text, err := document.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	if problems := text.Check(reflect.TypeFor[spec.Configuration]()); len(problems) > 0 {
		for _, p := range problems {
			if why := spec.Removed(p.Field); why != "" {
				p.Message = p.Field + ": " + why
			}
		}
		return nil, &Mistakes{problems}
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	c := spec.New()
	strict, err := json.UnmarshalStrict(converted, c)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 { // Check should have found them
		return nil, errors.Join(strict...)
	}
	spec.Complete(c)
	if err := Check(c); err != nil {
		return nil, located(text, "", err)
	}
	return c, nil
}

// Mistakes are all mistakes that were found in one file.
type Mistakes struct{ Problems []*document.Problem }

// Error is a line for each mistake, and where the fields are described.
func (m *Mistakes) Error() string {
	lines := make([]string, 0, len(m.Problems)+1)
	for _, p := range m.Problems {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n") + "\nsee docs/reference/configuration.md for the fields"
}

// located puts a place before each mistake in a field, and the word that was probably meant behind it. Under is the path of the object whose fields the mistakes name, with
// a dot behind it.
func located(text *document.Document, under string, err error) error {
	fields := spec.FieldErrors(err)
	if len(fields) == 0 {
		return err
	}
	m := &Mistakes{}
	for _, f := range fields {
		m.Problems = append(m.Problems, text.Locate(under+f.Field, under+hinted(f)))
	}
	slices.SortStableFunc(m.Problems, func(a, b *document.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return m
}

// maxListed is how many known words are listed beside the one that was probably meant.
const maxListed = 6

// hinted is a mistake with the word that was probably meant.
func hinted(f *spec.FieldError) string {
	var value *spec.ValueError
	if !errors.As(f, &value) {
		return f.Error()
	}
	hint := nearest.Hint(value.Value, value.Known)
	if hint != "" && len(value.Known) > maxListed {
		return fmt.Sprintf("%s: %q is not known%s", f.Field, value.Value, hint)
	}
	return f.Error() + hint
}

// Hinted returns what Check found in a configuration that is in no file, with the words that were probably meant.
func Hinted(err error) error {
	fields := spec.FieldErrors(err)
	if len(fields) == 0 {
		return err
	}
	lines := make([]string, len(fields))
	for i, f := range fields {
		lines[i] = hinted(f)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Check returns every mistake in a configuration that has its defaults set; spec.FieldErrors divides it.
func Check(c *spec.Configuration) error {
	errs := []error{spec.Validate(c), checkScores("scheduling", c.Scheduling.Scores)}
	for i := range c.Scheduling.Profiles {
		errs = append(errs, checkScores(fmt.Sprintf("scheduling.profiles[%d]", i), c.Scheduling.Profiles[i].Scores))
	}
	_, err := Peaks(c.Metrics.Peaks)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	_, err = profiles.New(&c.Scheduling)
	return err
}

// checkScores holds the names of scores to the table of those that exist.
func checkScores(at string, scores map[string]int64) error {
	known := rules.ScoreNames()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if !slices.Contains(known, name) {
			errs = append(errs, &spec.FieldError{Field: at + ".scores." + name, Err: &spec.ValueError{Value: name, Known: known}})
		}
	}
	return errors.Join(errs...)
}
