package evict

import "encoding/json"

// Counts is what happened since the Memory was made. It is cumulative, for metrics; the labels are the names of Detector.
type Counts struct {
	// Soft and Hard count pressures that rose to the level, Unknown the readings that lacked an input.
	Soft    ByDetector `json:"soft"`
	Hard    ByDetector `json:"hard"`
	Unknown ByDetector `json:"unknown"`
	// Notices, Requests and Stops count pods by what they were asked for. Withdrawn counts requests that were taken back because the pressure ended.
	Notices   ByDetector `json:"notices"`
	Requests  ByDetector `json:"requests"`
	Withdrawn ByDetector `json:"withdrawn"`
	Stops     ByDetector `json:"stops"`
	// Reclaims counts orders, ReclaimBytes their sum.
	Reclaims     ByDetector `json:"reclaims"`
	ReclaimBytes int64      `json:"reclaimBytes"`
	// Evicted counts pods that left after a request, Closings how often the node was closed, or closed for longer.
	Evicted  ByDetector `json:"evicted"`
	Closings uint64     `json:"closings"`
	// Crowded counts pods that would have been asked for but for a bound: MaxRequests of them stand already.
	Crowded uint64 `json:"crowded"`
	// Held counts steps at which a request was due, and had to wait for the detector's bound per hour.
	Held ByDetector `json:"held,omitzero"`
	// ClockJumps counts steps whose time was before that of the step before, or so long after it that observations are missing in between.
	ClockJumps uint64 `json:"clockJumps"`
}

// ByDetector counts by Detector.
type ByDetector [detectorCount]uint64

// MarshalJSON writes the counts that are not 0, by name.
func (b ByDetector) MarshalJSON() ([]byte, error) {
	named := map[Detector]uint64{}
	for i, n := range b {
		if n > 0 {
			named[Detector(i)] = n
		}
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *ByDetector) UnmarshalJSON(text []byte) error {
	named := map[Detector]uint64{}
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*b = ByDetector{}
	for d, n := range named {
		b[d] = n
	}
	return nil
}
