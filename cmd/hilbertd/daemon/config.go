package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/schedule/profiles"
)

// maxConfigBytes bounds a configuration file.
const maxConfigBytes = 1 << 20

// LoadConfig reads, completes and checks a configuration file; an empty path gives the defaults. Errors name the file, the field and
// what to write instead.
func LoadConfig(path string) (*spec.Configuration, error) {
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
	c, err := ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// ParseConfig is LoadConfig for bytes: YAML or JSON. Every field must be known and may occur once.
func ParseConfig(data []byte) (*spec.Configuration, error) {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	c := &spec.Configuration{}
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

// NewLogger makes the logger that a configuration asks for; it writes to stderr.
func NewLogger(c spec.Logging) *slog.Logger {
	options := &slog.HandlerOptions{}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err == nil { // Validate has refused unknown levels
		options.Level = level
	}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(stderr, options))
	}
	return slog.New(slog.NewTextHandler(stderr, options))
}
