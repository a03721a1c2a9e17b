package plugins

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/plugin"
)

// What a plugin fails with is told in as many bytes as a report may have.
func TestMessageIsBounded(t *testing.T) {
	c := NewController(controller.NewNode(time.Now, slog.New(slog.DiscardHandler), nil), nil, nil)
	c.plugins["fpga"] = &pluginState{name: "fpga", client: &plugin.Client{Info: plugin.Info{Resource: "example.com/fpga"}}, why: strings.Repeat("ü", 2000)}
	if got := c.Status(); len(got) != 1 || len(got[0].Message) == 0 || len(got[0].Message) > 1024 {
		t.Errorf("%+v", got)
	}
}
