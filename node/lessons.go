package node

import (
	"context"
	"encoding/json"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
)

// lessonsEvery is how often what the laws have learned is kept: an agent that starts again has lost no more than that. A day's pattern takes days to
// learn, and a node that was closed stays so.
const lessonsEvery = 5 * time.Minute

// lessons are what the laws have learned, ready for JSON. Times in it count from the boot.
type lessons struct {
	Advise advise.Memory `json:"advise"`
	Evict  evict.Memory  `json:"evict"`
}

// learn keeps the lessons, beside the loop. What cannot be kept is learned anew after a restart.
func (a *Agent) learn(now time.Time) {
	if a.ports.Lessons == nil || now.Sub(a.learned) < lessonsEvery {
		return
	}
	first := a.learned.IsZero()
	if a.learned = now; first {
		return
	}
	data, err := json.Marshal(lessons{a.lending.memory, a.relief.memory})
	if err != nil {
		a.log.Error("what was learned cannot be kept", "err", err) // a mistake of ours
		return
	}
	a.work(func(context.Context) {
		if err := a.ports.Lessons.Save(data); err != nil {
			a.log.Warn("what was learned cannot be kept; after a restart it is learned anew", "err", err)
		}
	})
}

// remind takes over what was learned before a restart.
func (a *Agent) remind() {
	if a.ports.Lessons == nil {
		return
	}
	var known lessons
	data, err := a.ports.Lessons.Load()
	if err == nil && data != nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		a.log.Warn("what was learned before cannot be read; it is learned anew", "err", err)
		return
	}
	a.lending.memory, a.relief.memory = known.Advise, known.Evict
}
