package node

import (
	"context"
	"encoding/json"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
)

// lawStateInterval is how often what the laws have learned is kept: an agent that starts again has lost no more than that. A day's pattern takes days to
// learn, and a node that was closed stays so.
const lawStateInterval = 5 * time.Minute

// lawState are what the laws have learned, ready for JSON. Times in it count from the boot.
type lawState struct {
	Advise advise.State `json:"advise"`
	Evict  evict.State  `json:"evict"`
}

// saveLawState keeps the law state, beside the loop. What cannot be kept is learned anew after a restart.
func (a *Agent) saveLawState(now time.Time) {
	if a.ports.LawState == nil || now.Sub(a.lawStateSaved) < lawStateInterval {
		return
	}
	first := a.lawStateSaved.IsZero()
	if a.lawStateSaved = now; first {
		return
	}
	data, err := json.Marshal(lawState{a.lending.state, a.eviction.state})
	if err != nil {
		a.log.Error("what was learned cannot be kept", "err", err) // a mistake of ours
		return
	}
	a.work(func(context.Context) {
		if err := a.ports.LawState.Save(data); err != nil {
			a.log.Warn("what was learned cannot be kept; after a restart it is learned anew", "err", err)
		}
	})
}

// loadLawState takes over what was learned before a restart.
func (a *Agent) loadLawState() {
	if a.ports.LawState == nil {
		return
	}
	var known lawState
	data, err := a.ports.LawState.Load()
	if err == nil && data != nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		a.log.Warn("what was learned before cannot be read; it is learned anew", "err", err)
		return
	}
	a.lending.state, a.eviction.state = known.Advise, known.Evict
}
