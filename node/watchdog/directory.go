package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	turnFile, beatFile, planFile = "turn", "beat", "plan.json"
	// maxEntries bounds what is read of the directory.
	maxEntries = 64
)

// Directory is what the agent and the watchdog share. It has to lie on a file system in memory: what is in it is of this start of the machine, and a
// disk that does not answer must not make the agent seem silent.
type Directory string

// PlanPath is the plan's file.
func (d Directory) PlanPath() string { return filepath.Join(string(d), planFile) }

func (d Directory) path(t Turn) string {
	return filepath.Join(string(d), turnFile+"."+strconv.FormatUint(t.Number, 10)+"."+string(t.Owner))
}

// Turn reads whose turn it is.
func (d Directory) Turn() (newest Turn, err error) {
	dir, err := os.Open(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return Turn{}, nil
	}
	if err != nil {
		return Turn{}, err
	}
	names, err := dir.Readdirnames(maxEntries)
	if err := errors.Join(err, dir.Close()); err != nil && len(names) > 0 {
		return Turn{}, err
	}
	for _, name := range names {
		parts := strings.Split(name, ".")
		if len(parts) != 3 || parts[0] != turnFile || (Owner(parts[2]) != Agent && Owner(parts[2]) != Watchdog) {
			continue
		}
		if n, err := strconv.ParseUint(parts[1], 10, 64); err == nil && n > newest.Number {
			newest = Turn{n, Owner(parts[2])}
		}
	}
	return newest, nil
}

// Take takes the turn from where it was seen. Of several that take it, one succeeds; the others get an error, and look again. The first turn is the
// agent's to take.
func (d Directory) Take(seen Turn, by Owner) (Turn, error) {
	next := Turn{seen.Number + 1, by}
	if seen != (Turn{}) {
		if err := os.Rename(d.path(seen), d.path(next)); err != nil {
			return Turn{}, fmt.Errorf("take the turn: %w", err)
		}
		return next, nil
	}
	if by != Agent {
		return Turn{}, errors.New("take the turn: no agent has run here yet")
	}
	file, err := os.OpenFile(d.path(next), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Turn{}, fmt.Errorf("take the turn: %w", err)
	}
	return next, file.Close()
}

// Holds reports whether a turn still lasts. Who owns the knobs asks before each write of one.
func (d Directory) Holds(t Turn) bool {
	_, err := os.Lstat(d.path(t))
	return err == nil
}

// Beat writes the agent's number.
func (d Directory) Beat(n uint64) error {
	return os.WriteFile(filepath.Join(string(d), beatFile), strconv.AppendUint(nil, n, 10), 0o600)
}

// maxBeatBytes is the longest number.
const maxBeatBytes = 20

// LastBeat reads it; 0: there is none, or it is being written.
func (d Directory) LastBeat() uint64 {
	file, err := os.Open(filepath.Join(string(d), beatFile))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // nothing was written
	data := make([]byte, maxBeatBytes)
	n, _ := file.Read(data)
	beat, err := strconv.ParseUint(string(data[:n]), 10, 64)
	if err != nil {
		return 0
	}
	return beat
}

// Plan reads the plan.
func (d Directory) Plan() (*Plan, error) {
	info, err := os.Stat(d.PlanPath())
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxPlanBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many (at most %d)", d.PlanPath(), info.Size(), MaxPlanBytes)
	}
	data, err := os.ReadFile(d.PlanPath())
	if err != nil {
		return nil, err
	}
	return ParsePlan(data)
}
