package daemon

import (
	"log/slog"

	"hilbert.dev/hilbert/api/spec"
)

// NewLogger makes the logger that a configuration asks for; it writes to stderr. Its level can be changed.
func NewLogger(c spec.Logging) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	_ = level.UnmarshalText([]byte(c.Level)) // Validate has refused unknown levels
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(stderr, options)), level
	}
	return slog.New(slog.NewTextHandler(stderr, options)), level
}
