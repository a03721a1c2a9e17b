package blkio

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/node/enforce"
)

// kernelWeight is what each cgroup has by itself.
const kernelWeight = 100

// Store keeps a value over restarts; store.File is one.
type Store interface {
	Load() ([]byte, error) // nil: there is none
	Save(data []byte) error
}

// topWeight is what is known of the weight of all pods together.
type topWeight struct {
	store   Store // nil: nothing outlives this process
	loaded  bool
	weighed bool // they had one of the settings, of this agent or of one before it
	kept    bool // the store says so
}

// weighedText is what the store has while all pods together have a weight of the settings.
const weighedText = "weighed"

// KeepWeight has a store say whether all pods together have a weight of the settings, so that an agent which is started without one gives back what the one before it has set.
// It is called before the first Tick.
func (c *Control) KeepWeight(s Store) { c.top.store = s }

// weighTop is the weight of all pods together, beside the host's services: these write pods' logs and pull their images, so what they do for reclaimed pods is no reclaimed pod's.
// What nobody set is left alone. That it is set is kept before it is.
func (c *Control) weighTop() ([]enforce.DesiredKnob, error) {
	weight := c.now.Pods
	if err := c.keepWeight(weight); err != nil {
		return nil, fmt.Errorf("the weight of all pods is left alone: %w", err)
	}
	if !c.top.weighed {
		return nil, nil
	}
	if weight == 0 {
		weight = kernelWeight
	}
	return []enforce.DesiredKnob{enforce.Desire(c.pods, enforce.IOWeight, value(weight))}, nil
}

// keepWeight brings the store up to date: it says no longer that there is a weight once the kernel's own is back.
func (c *Control) keepWeight(weight int) error {
	t := &c.top
	if t.store != nil && !t.loaded {
		data, err := t.store.Load()
		if err != nil {
			return fmt.Errorf("read whether an agent before this one has set it: %w", err)
		}
		t.loaded, t.kept = true, string(data) == weighedText
		t.weighed = t.weighed || t.kept
	}
	t.weighed = t.weighed || weight > 0
	keep := t.kept
	if weight > 0 {
		keep = true
	} else if keep {
		text, err := c.kernel.Read(c.pods + "/" + enforce.IOWeight)
		first, _, _ := strings.Cut(text, "\n")
		keep = err != nil || first != value(kernelWeight)
	}
	if keep == t.kept || t.store == nil {
		return nil
	}
	text := ""
	if keep {
		text = weighedText
	}
	if err := t.store.Save([]byte(text)); err != nil {
		return fmt.Errorf("keep that it is set: %w", err)
	}
	t.kept = keep
	return nil
}
