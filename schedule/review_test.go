package schedule_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestRev(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	datadriven.Walk(t, "testdata_review", func(t *testing.T, path string) {
		h := newHarness(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.log.Reset()
			out := h.run(t, d)
			if err := h.s.Verify(); err != nil {
				return "INVARIANT " + err.Error() + "\n"
			}
			return h.log.String() + out
		})
	})
}
