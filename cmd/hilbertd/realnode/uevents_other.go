//go:build !linux

package realnode

import (
	"context"
	"log/slog"
)

// uevents are not told here, where no agent can run.
func uevents(context.Context, *slog.Logger, func()) {}
