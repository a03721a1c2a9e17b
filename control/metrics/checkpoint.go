package metrics

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

// checkpoint is what outlasts a process: the profiles. What pods use now is reported anew within seconds.
type checkpoint struct {
	Version int           `json:"version"`
	Step    string        `json:"step"`
	Written time.Time     `json:"written"`
	Loads   []checkpointW `json:"workloads"`
}

// checkpointW is a profile. Loads are 32-bit floats, the least significant byte first, in base64; one that is not known is no number.
type checkpointW struct {
	Namespace string    `json:"namespace"`
	Kind      string    `json:"kind"`
	Name      string    `json:"name"`
	Asked     time.Time `json:"asked"`
	Newest    time.Time `json:"newest"`
	Filled    bool      `json:"filled,omitempty"`
	Loads     string    `json:"loads"`
}

const (
	checkpointVersion = 1
	floatBytes        = 4
	// maxStepsKept bounds what is read of one profile.
	maxStepsKept = 1 << 16
)

// Checkpoint is the profiles as bytes.
func (s *Store) Checkpoint(now time.Time) ([]byte, error) {
	c := checkpoint{Version: checkpointVersion, Step: s.params.Forecast.Step.String(), Written: now.UTC()}
	for w, p := range s.profiles {
		newest, loads := p.series.Loads()
		if len(loads) == 0 {
			continue
		}
		data := make([]byte, 0, len(loads)*floatBytes)
		for _, load := range loads {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(load)))
		}
		c.Loads = append(c.Loads, checkpointW{
			Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Asked: p.asked.UTC(), Newest: newest.UTC(), Filled: p.filled,
			Loads: base64.StdEncoding.EncodeToString(data),
		})
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the profiles: %w", err)
	}
	return text, nil
}

// Restore takes profiles over that Checkpoint has written, and returns how many. Those that nobody has asked for in a long time are left out, as are those beyond Params.MaxProfiles.
func (s *Store) Restore(text []byte, now time.Time) (int, error) {
	var c checkpoint
	if err := json.Unmarshal(text, &c); err != nil {
		return 0, fmt.Errorf("read the profiles: %w", err)
	}
	if step := s.params.Forecast.Step.String(); c.Version != checkpointVersion || c.Step != step {
		return 0, fmt.Errorf("read the profiles: version %d with steps of %s: want %d and %s", c.Version, c.Step, checkpointVersion, step)
	}
	restored := 0
	for i := range c.Loads {
		from := &c.Loads[i]
		w := Workload{from.Namespace, from.Kind, from.Name}
		if len(s.profiles) >= s.params.MaxProfiles || s.profiles[w] != nil || now.Sub(from.Asked) > s.params.KeepAsked || from.Newest.After(now) {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(from.Loads)
		if err != nil || len(data)%floatBytes != 0 || len(data)/floatBytes > maxStepsKept {
			return restored, fmt.Errorf("read the profile of %s: %d bytes, want numbers of %d bytes in base64, at most %d", w, len(from.Loads), floatBytes, maxStepsKept)
		}
		loads := make([]float64, len(data)/floatBytes)
		for at := range loads {
			loads[at] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[at*floatBytes:])))
		}
		p := &profile{series: forecast.NewSeries(&s.params.Forecast), asked: from.Asked, filled: from.Filled}
		s.replay(p.series, from.Newest, loads)
		s.profiles[w] = p
		restored++
	}
	return restored, nil
}
