package cleanup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// recordVersion is what this agent writes.
const recordVersion = 1

// Store keeps a value over restarts; store.File is one.
type Store interface {
	Load() ([]byte, error) // nil: there is none
	Save(data []byte) error
}

// Record says which parts the agent has set since they were last reset.
type Record struct {
	Version int    `json:"version"`
	Parts   []Part `json:"parts"`
}

// Load reads the parts that are recorded. An error says that they are not known; then they may be any.
func Load(s Store) ([]Part, error) {
	data, err := s.Load()
	if err != nil || data == nil {
		return nil, err
	}
	var r Record
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("the record of what the agent has set: %w", err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("the record of what the agent has set has version %d; this agent knows %d", r.Version, recordVersion)
	}
	for _, part := range r.Parts {
		if !slices.Contains(Parts(), part) {
			return nil, fmt.Errorf("the record of what the agent has set names %q, which this agent does not know", part)
		}
	}
	return r.Parts, nil
}

// Save records the parts. It comes before the first of their files is written.
func Save(s Store, parts []Part) error {
	data, err := json.Marshal(Record{Version: recordVersion, Parts: parts})
	if err == nil {
		err = s.Save(data)
	}
	if err != nil {
		return fmt.Errorf("record what the agent sets: %w", err)
	}
	return nil
}
