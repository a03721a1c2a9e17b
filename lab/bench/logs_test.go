package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogsAreKeptAfterFailures: a temporary directory goes after a good run and stays after a bad one, which says where; a directory that was asked for always stays.
func TestLogsAreKeptAfterFailures(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	failed := errors.New("no")
	for _, wanted := range []string{"", filepath.Join(t.TempDir(), "a", "b")} {
		for _, run := range []error{nil, failed} {
			dir, finish, err := openLogs(wanted)
			if err != nil {
				t.Fatal(err)
			}
			got := finish(run)
			if !errors.Is(got, run) || (got != nil && strings.Contains(got.Error(), dir)) != (run != nil && wanted == "") {
				t.Errorf("directory %q, run %v: the error is %v", wanted, run, got)
			}
			_, err = os.Stat(dir)
			if kept := err == nil; kept != (wanted != "" || run != nil) {
				t.Errorf("directory %q, run %v: kept is %v", wanted, run, kept)
			}
		}
	}
}
