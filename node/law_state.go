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

// lawStateFile is what the laws have learned, ready for JSON. Times in it count from the boot.
type lawStateFile struct {
	Advise advise.State `json:"advise"`
	Evict  evict.State  `json:"evict"`
}

// lawState keeps what the laws have learned over a restart of the agent. What cannot be kept is learned anew: that costs some days of forecast, and
// nothing else.
type lawState struct {
	node     *nodeState
	lending  *lendingController
	eviction *evictionController
	saved    time.Time // when the state was last saved
}

// Tick implements controller: it saves the state when that is due, beside the loop.
func (l *lawState) Tick(in *inputs) (changed bool) {
	n := l.node
	if n.ports.LawState == nil || in.now.Sub(l.saved) < lawStateInterval {
		return false
	}
	first := l.saved.IsZero()
	if l.saved = in.now; first {
		return false
	}
	data, err := json.Marshal(lawStateFile{l.lending.state, l.eviction.state})
	if err != nil {
		n.log.Error("what was learned cannot be kept", "err", err) // a mistake of ours
		return false
	}
	n.loop.work(func(context.Context) {
		if err := n.ports.LawState.Save(data); err != nil {
			n.log.Warn("what was learned cannot be kept; after a restart it is learned anew", "err", err)
		}
	})
	return false
}

// load takes over what was learned before a restart.
func (l *lawState) load() {
	n := l.node
	if n.ports.LawState == nil {
		return
	}
	var known lawStateFile
	data, err := n.ports.LawState.Load()
	if err == nil && data != nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		n.log.Warn("what was learned before cannot be read; it is learned anew", "err", err)
		return
	}
	l.lending.state, l.eviction.state = known.Advise, known.Evict
}
