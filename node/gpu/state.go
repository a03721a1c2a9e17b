package gpu

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/topology"
)

// State is what must outlast the agent: which index belongs to which address, and which faults were seen. The zero State knows nothing. It is
// never changed: Step makes another.
type State struct {
	// Boot names the start of the kernel that faults are of.
	Boot string `json:"boot,omitempty"`
	// XidsTo is up to when faults of the kernel's log were taken, since the kernel started.
	XidsTo time.Duration `json:"xidsTo,omitempty"`
	// Failures is how many answers of the driver failed in a row. Gone: the last one was that there is no driver.
	Failures int  `json:"failures,omitempty"`
	Gone     bool `json:"gone,omitempty"`
	// Slots are the GPUs that there were, by index.
	Slots []Slot `json:"slots,omitempty"`
	// Version and Links are the driver's last words.
	Version string  `json:"version,omitempty"`
	Links   []uint8 `json:"links,omitempty"` // by index, len(Slots)²; none: not known
}

// Slot is one index.
type Slot struct {
	Address string `json:"address"`
	// GPU is what was last known. Its UUID is that of whoever holds the index.
	GPU GPU `json:"gpu"`
	// Closed is why it gave nothing new at the last look; empty: it was open. Why says it in words.
	Closed Reason `json:"closed,omitempty"`
	Why    string `json:"why,omitempty"`
	// Faults are the Xids that only a restart of the driver, or of the GPU, clears.
	Faults []int `json:"faults,omitempty"`
	// Calm is how many answers were good since it was last not.
	Calm int `json:"calm,omitempty"`
	// Instances are MIG instances by their index. Those that are gone keep it while they are held.
	Instances []SlotInstance `json:"instances,omitempty"`
}

// SlotInstance is one index of an instance.
type SlotInstance struct {
	Instance
	Gone bool `json:"gone,omitempty"`
}

// Held is what pods hold: sets of indices, of GPUs and for each of its instances.
type Held struct {
	GPUs      uint16
	Instances [topology.MaxGPUs]uint16
}

// Load reads a Memory that Save wrote. No data is the zero Memory.
func Load(data []byte) (m State, err error) {
	if len(data) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return State{}, fmt.Errorf("the checkpoint of GPUs: %w", err)
	}
	if len(m.Slots) > topology.MaxGPUs {
		return State{}, fmt.Errorf("the checkpoint of GPUs has %d, want at most %d", len(m.Slots), topology.MaxGPUs)
	}
	for i := range m.Slots {
		if same := func(s Slot) bool { return s.Address == m.Slots[i].Address }; slices.IndexFunc(m.Slots, same) != i {
			return State{}, fmt.Errorf("the checkpoint of GPUs has two at %s", m.Slots[i].Address)
		}
	}
	return m, nil
}

// Save is the Memory as Load reads it.
func (m *State) Save() ([]byte, error) { return json.Marshal(m) }

// clone copies what Step changes.
func (m *State) clone() State {
	out := *m
	out.Slots = slices.Clone(m.Slots)
	for i := range out.Slots {
		out.Slots[i].Faults = slices.Clone(out.Slots[i].Faults)
		out.Slots[i].Instances = slices.Clone(out.Slots[i].Instances)
	}
	return out
}

func (m *State) at(address string) *Slot {
	for i := range m.Slots {
		if m.Slots[i].Address == address {
			return &m.Slots[i]
		}
	}
	return nil
}
