package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/store"
)

// configurationController swaps the parameters of the laws while the agent runs: those of the file, or what the controller role has told the node in their place. What
// cannot be worked with is reported, and what was in force stays so. The last good ones are on disk, and an agent that starts goes on from them though nobody answers.
//
// For example: the file says targetUtilization 80, the node is told {"lending": {"targetUtilization": 60}}; from the next observation on the laws run with 60, in the
// same process.
type configurationController struct {
	node     *nodeState
	file     spec.Node // as the agent was started with
	lending  *lendingController
	eviction *evictionController
	memory   *memoryController
	// thresholds compares the marks of eviction with the kubelet's, again after each swap.
	thresholds *kubelet.Thresholds
	saver      *store.Saver
	applied    *spec.AppliedConfiguration // nil: nothing was told
}

func newConfigurationController(n *nodeState, l *lendingController, e *evictionController, m *memoryController, t *kubelet.Thresholds) *configurationController {
	c := &configurationController{node: n, file: n.options.Config, lending: l, eviction: e, memory: m, thresholds: t}
	c.saver = store.NewSaver(n.Loop, n.Now, n.ports.Configuration, func(err error) {
		if err != nil {
			n.Log.Warn("the configuration cannot be kept; an agent that starts without the API server runs with its file", "err", err)
		}
	})
	return c
}

// restore goes on from what is on disk.
func (c *configurationController) restore(now time.Time) {
	if c.node.ports.Configuration == nil {
		return
	}
	data, err := c.node.ports.Configuration.Load()
	var kept *spec.WantedConfiguration
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		c.node.Log.Warn("the configuration that was kept cannot be read; the agent begins with its file", "err", err)
		return
	}
	if kept != nil {
		c.set(kept, now)
	}
}

// set takes what the node was told; nil: nothing, and the file alone counts. It runs in the loop, so between two ticks.
func (c *configurationController) set(w *spec.WantedConfiguration, now time.Time) {
	if w == nil {
		if c.applied != nil {
			c.applied = nil
			c.swap(&c.file)
			c.keep(nil, now)
			c.node.Log.Info("the node is told no configuration any more; its file counts")
		}
		return
	}
	if a := c.applied; a != nil && a.Name == w.Name && a.Hash == w.Hash && a.Error == "" {
		return
	}
	next := &spec.AppliedConfiguration{Name: w.Name, Hash: w.Hash, Since: now.UTC().Truncate(time.Second), Idle: !c.node.Lends()}
	if c.applied != nil {
		next.InForce = c.applied.InForce
	}
	config, err := c.merged(w)
	if err != nil {
		next.Error = clipped(err.Error())
		if a := c.applied; a != nil && a.Hash == next.Hash && a.Error == next.Error {
			return
		}
		c.applied = next
		c.node.Log.Warn("the configuration is refused; what was in force stays so", "name", w.Name, "err", err)
		return
	}
	next.InForce = w.Hash
	c.applied = next
	c.swap(&config)
	c.keep(w, now)
	c.node.Log.Info("the configuration is in force", "name", w.Name, "hash", w.Hash)
	for _, f := range spec.NoEffectOnNode(&config) {
		c.node.Log.Warn("the configuration has a field that does nothing", "name", w.Name, "field", f.Field, "why", f.Err)
	}
}

// merged is the file with what was told in its place.
func (c *configurationController) merged(w *spec.WantedConfiguration) (spec.Node, error) {
	if got := w.Parameters.Hash(); got != w.Hash {
		return spec.Node{}, fmt.Errorf("the parameters have the hash %s, and not %s: somebody has changed them on their way", got, w.Hash)
	}
	return w.Parameters.On(&c.file)
}

// clipped bounds an error for the report.
func clipped(text string) string {
	if len(text) > spec.MaxConfigurationError {
		return text[:spec.MaxConfigurationError]
	}
	return text
}

// keep has it on disk.
func (c *configurationController) keep(w *spec.WantedConfiguration, now time.Time) {
	data, err := json.Marshal(w)
	if err != nil {
		c.node.Log.Error("the configuration cannot be kept", "err", err) // a mistake of ours
		return
	}
	c.saver.Save(data, now)
}

// errSwapped ends a record: a replay would go on with the parameters of before.
var errSwapped = errors.New("the parameters have changed; start the agent again for a record with the new ones")

// swap has every law run with a configuration from its next step on.
func (c *configurationController) swap(config *spec.Node) {
	parameters := config.Parameters()
	c.node.options.Config.SetParameters(&parameters)
	now := &c.node.options.Config
	c.lending.params = lawParams(now)
	if c.lending.recorder != nil {
		c.lending.recordEnds(errSwapped)
	}
	c.eviction.params = evict.ParamsOf(now)
	c.memory.adjust(&now.Memory)
	c.thresholds.AskAgain() // ours are compared with the kubelet's again
}

// healthWindow is the time over which a node's health is reported.
const healthWindow = 2 * time.Minute

// healthController keeps how pods have fared lately, for whoever compares nodes.
type healthController struct {
	eviction *evictionController
	readings []healthReading
	asked    map[string]bool // pods that the last decision wanted evicted, by UID
}

// healthReading is of one observation.
type healthReading struct {
	at        time.Time
	delay     float64 // threads that wait for each shared CPU
	known     bool
	evictions int64
}

// Tick implements controller.
func (h *healthController) Tick(in *inputs) (changed bool) {
	r := healthReading{at: in.now, known: true}
	cpus := 0
	for i := range in.seen.laws.NUMANodes {
		z := &in.seen.laws.NUMANodes[i]
		if z.MemoryOnly {
			continue
		}
		r.known = r.known && z.SharedDelay.Known
		r.delay += z.SharedDelay.Value
		cpus += max(z.Divisible-z.Lent, 0)
	}
	r.known = r.known && cpus > 0
	if r.known {
		r.delay /= float64(cpus)
	}
	asked := make(map[string]bool)
	for _, e := range h.eviction.decision.Requests {
		if asked[e.UID] = true; !h.asked[e.UID] {
			r.evictions++
		}
	}
	h.asked = asked
	h.readings = append(h.readings, r)
	old := 0
	for old < len(h.readings)-1 && in.now.Sub(h.readings[old+1].at) >= healthWindow {
		old++ // one that is older than the window stays: the readings cover it
	}
	h.readings = h.readings[old:]
	return false
}

// status is the node's health; nil: it is not known for all of the window, as where every second reading failed.
func (h *healthController) status(now time.Time) *spec.NodeHealth {
	const stale = 30 * time.Second
	n := len(h.readings)
	if n == 0 || now.Sub(h.readings[n-1].at) > stale || h.readings[n-1].at.Sub(h.readings[0].at) < healthWindow {
		return nil
	}
	const thousandths = 1000
	out := &spec.NodeHealth{WindowSeconds: int64(healthWindow / time.Second)}
	sum, known := 0.0, 0
	for i := range h.readings {
		out.Evictions += h.readings[i].evictions
		if h.readings[i].known {
			sum, known = sum+h.readings[i].delay, known+1
		}
	}
	if known*2 < n {
		return nil
	}
	out.RunDelay = int64(sum / float64(known) * thousandths)
	return out
}

// Configure says what the node is told of configuration; nil: nothing. It must not be changed afterwards.
func (a *Agent) Configure(w *spec.WantedConfiguration) {
	a.node.Loop.Post(func() { a.configuration.set(w, a.node.Now()) })
}
