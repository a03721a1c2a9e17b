package io

import (
	"testing"

	"hilbert.dev/hilbert/lab/vm/probe"
)

// TestInGuest runs the test of node/blkio that needs a guest.
func TestInGuest(t *testing.T) { probe.Run(t, "../../..", "./node/blkio", "TestGuest") }
