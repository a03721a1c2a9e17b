// Package output has what all commands of hilbert share about their output: the formats that --output names, JSON, files,
// terminals, and the error of a command that was interrupted.
//
// JSON is indented and not escaped for HTML, so that a reader sees "<" as it is. A file that could not be closed counts as not written.
//
// It renders no table or page: each command does that itself.
package output

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/cmd/exitcode"
)

// The values of --output.
const (
	Table = "table"
	JSON  = "json"
	Text  = "text"
	YAML  = "yaml"
)

// ErrInterrupted is returned when the context ended a command early; what was reached has been printed.
var ErrInterrupted = exitcode.Mark(exitcode.Interrupted, errors.New("interrupted"))

// WriteJSON writes v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// WriteYAML writes v as YAML, with the field names of its JSON.
func WriteYAML(w io.Writer, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// WriteFile creates a file and lets write fill it.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}

// IsTerminal reports whether w is a terminal, where progress can overwrite itself.
func IsTerminal(w io.Writer) bool {
	if p, ok := w.(*printable); ok {
		return IsTerminal(p.w)
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
