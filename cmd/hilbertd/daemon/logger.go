package daemon

import (
	"log/slog"

	"hilbert.dev/hilbert/api/spec"
)

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
