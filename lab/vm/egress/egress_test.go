package egress

import (
	"testing"

	"hilbert.dev/hilbert/lab/vm/probe"
)

// TestInGuest runs the tests of node/egress that need a guest.
func TestInGuest(t *testing.T) { probe.Run(t, "../../..", "./node/egress", "TestGuest|TestPace") }
