package parse

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestNobodySilencesTheWarner: one complaint is logged for each object, and as many as somebody's objects may be, another's is logged too.
func TestNobodySilencesTheWarner(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	w := Warner{Log: slog.New(slog.NewTextHandler(&text, nil))}
	for i := range 3 * maxWarned {
		for range 2 {
			w.Warn(fmt.Sprint("mine-", i), "bad")
		}
	}
	w.Warn("other", "bad")
	if n := strings.Count(text.String(), "\n"); n != 3*maxWarned+1 || !strings.Contains(text.String(), "object=other") {
		t.Errorf("%d complaints of %d objects", n, 3*maxWarned+1)
	}
	if len(w.seen) != maxWarned || len(w.order) != maxWarned {
		t.Errorf("%d and %d are remembered", len(w.seen), len(w.order))
	}
}
