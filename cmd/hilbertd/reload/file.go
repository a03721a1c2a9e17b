package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
)

// Every is how often a file is looked at, as those of certificates are.
const Every = 10 * time.Second

// File is a configuration file that may change.
type File struct {
	path string
	// complete adds what the command line says.
	complete func(*spec.Configuration)
	changed  time.Time // of the file that was read last
}

// NewFile follows a file that is being read.
func NewFile(path string, complete func(*spec.Configuration)) *File {
	f := &File{path: path, complete: complete}
	if info, err := os.Stat(path); err == nil {
		f.changed = info.ModTime()
	}
	return f
}

// Read reads the file if it has changed since it was read last; else it returns nil. An error is told once: until the file changes again there is nothing more to say.
func (f *File) Read() (*spec.Configuration, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		if f.changed.IsZero() {
			return nil, nil //nolint:nilnil // it is still missing
		}
		f.changed = time.Time{}
		return nil, fmt.Errorf("read the configuration again: %w", err)
	}
	if info.ModTime().Equal(f.changed) {
		return nil, nil //nolint:nilnil // nothing has changed
	}
	f.changed = info.ModTime()
	c, err := configfile.Load(f.path)
	if err != nil {
		return nil, err
	}
	f.complete(c)
	return c, nil
}

// Hash names what a process runs with: equal configurations have the same.
func Hash(c *spec.Configuration) string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // there is nothing in it that could not be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
