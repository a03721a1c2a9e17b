// Package configfile reads a configuration file of hilbertd, for hilbertd and for the programs that show what it would do: hilbert node replay and hilbert sim.
//
// Data flow: YAML or JSON is decoded strictly onto spec.New, completed by spec.SetDefaults, and checked by spec.Validate and by the table of scores. An error names the
// file, the field and the fix.
//
// What always holds: no field is passed over, and a 0 that is written means 0 wherever spec says so. The package knows no default of its own.
package configfile

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
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
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if info.Size() > maxConfigBytes {
		return nil, fmt.Errorf("configuration %s: %d bytes are too many (at most %d); is it the right file?", path, info.Size(), maxConfigBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse is Load for bytes: YAML or JSON. Every field must be known and may occur once.
func Parse(data []byte) (*spec.Configuration, error) {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	c := spec.New()
	strict, err := json.UnmarshalStrict(converted, c)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%w; see docs/reference/configuration.md for the fields", errors.Join(strict...))
	}
	spec.SetDefaults(c)
	if err := Check(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Check returns every mistake in a configuration that has its defaults set.
func Check(c *spec.Configuration) error {
	errs := []error{spec.Validate(c)}
	if _, err := profiles.New(&c.Scheduling); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
