package allocate

// CheckpointVersion is the version of the checkpoints that this package writes and reads.
const CheckpointVersion = 1

// Checkpoint is a Manager's state, ready for JSON.
type Checkpoint struct {
	Version int    `json:"version"`
	Machine string `json:"machine"` // a fingerprint of the hardware
	Sum     string `json:"sum"`     // a checksum of all other fields
}
