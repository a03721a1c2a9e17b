package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/node/overcommit"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

// lendingController lends idle CPUs and memory to reclaimed pods. At each observation it runs the laws (package advise), gives the reclaimed pool the
// cores that they advise, and keeps the headroom that the report publishes.
//
// For example: online pods use 3 of 8 cores of a NUMA node, so the laws advise to lend 3; the controller tells the allocator, whose new placements are
// then applied. When online pods start to wait for CPUs, the advice falls to the floor in the same round.
type lendingController struct {
	node   *nodeState
	params advise.Params
	state  advise.State
	advice advise.Advice
	// at is when the laws last ran; zero: they never did, and nothing is offered.
	at    time.Time
	cores [topology.MaxNUMANodes]int // as last given to the manager
	// demands are what steered pools should have, in millicores, as last given to the manager.
	demands map[string]int64
	// steered is how many pods follow each profile, by its name.
	steered map[string]Steered
	held    int64 // memory of the reclaimed pods, in bytes
	// recorder writes what the laws saw and said; recorded: it has ended.
	recorder *advise.Recorder
	recorded bool
}

// maxAdviceAge is how old an advice may be that is still reported: without observations there is no newer one.
const maxAdviceAge = 30 * time.Second

// lawParams are the laws' parameters as the configuration has them.
func lawParams(c *spec.Node) advise.Params {
	p := advise.ParamsOf(c)
	p.Explain = true
	return p
}

// Tick implements controller.
func (l *lendingController) Tick(in *inputs) (changed bool) {
	o := &in.seen.laws
	suspended := l.node.options.Config.Lending.Suspended
	o.StopLending, o.NoMemory = in.noLending || suspended, in.noMemory || suspended
	l.recordStart()
	l.advice = advise.Step(o, &l.params, &l.state)
	l.record(o)
	l.at, l.held, l.steered = in.now, heldBy(o), steeredBy(o.Services)
	in.advice, in.cpuPressure = &l.advice, l.params.CPUPressure(o)
	return l.resize()
}

// resize gives the pools what was advised.
func (l *lendingController) resize() (changed bool) {
	manager := l.node.Manager
	var cores [topology.MaxNUMANodes]int
	for z, advice := range l.advice.NUMANodes {
		cores[z] = advice.Lend
	}
	if demands := demandsOf(l.advice.Pools); !maps.Equal(demands, l.demands) {
		l.demands = demands
		manager.Pools.SetDemands(demands)
		changed = true
	}
	suppress := l.advice.Suppression >= advise.SuppressWeight
	if cores != l.cores || suppress != manager.Pools.Suppressed() {
		l.cores = cores
		manager.Pools.SetReclaimed(cores)
		manager.Pools.Suppress(suppress)
		changed = true
	}
	return changed
}

// demandsOf is what the pools that are steered should have, in millicores; the others follow their requests.
func demandsOf(pools map[string]int) map[string]int64 {
	if len(pools) == 0 {
		return nil
	}
	const milli = 1000
	out := make(map[string]int64, len(pools))
	for pool, cpus := range pools {
		out[pool] = int64(cpus) * milli
	}
	return out
}

// recordStart begins the record, where one is wanted.
func (l *lendingController) recordStart() {
	if l.node.options.Record == nil || l.recorder != nil || l.recorded {
		return
	}
	var err error
	l.recorder, err = advise.NewRecorder(l.node.options.Record, &l.params, &l.state)
	l.recordEnds(err)
}

// record writes what the laws saw and said at this tick.
func (l *lendingController) record(o *advise.Observation) {
	if l.recorder != nil {
		l.recordEnds(l.recorder.Record(o, &l.advice))
	}
}

// recordEnds ends the record where it cannot go on: it is full, or the disk is.
func (l *lendingController) recordEnds(err error) {
	if err != nil {
		l.recorder, l.recorded = nil, true
		l.node.Log.Warn("the record of the laws ends", "why", err)
	}
}

// colocation is what is said of lending, with the reasons for people; nil: nothing can be said, and so nothing is offered. eviction is what
// the eviction controller has decided.
func (l *lendingController) colocation(now time.Time, eviction *evictionController) *spec.Colocation {
	out := l.headroom(now, eviction)
	if out == nil {
		return nil
	}
	for z := range out.NUMANodes {
		advice := &l.advice.NUMANodes[z]
		out.NUMANodes[z].Message = "CPU: " + terms(advice.CPU.Terms, milliText) + "; memory: " + terms(advice.Memory.Terms, bytesText)
	}
	return out
}

// headroom is colocation without the texts, which are dear, and not needed to tell whether there is something to write.
func (l *lendingController) headroom(now time.Time, eviction *evictionController) *spec.Colocation {
	if !l.node.Lends() || l.at.IsZero() || now.Sub(l.at) > maxAdviceAge {
		return nil
	}
	out := &spec.Colocation{Suppression: l.advice.Suppression.String(), Closed: eviction.closed(), Evictions: eviction.requests()}
	for z, advice := range l.advice.NUMANodes {
		numa := spec.NUMAHeadroom{
			Name:      strconv.Itoa(l.node.options.Machine.NUMA[z].ID),
			CPUReason: string(advice.CPU.Reason), MemoryReason: string(advice.Memory.Reason),
		}
		numa.MilliCPU, numa.MemoryMiB = advice.CPU.Published, advice.Memory.Published/topology.Mebibyte
		out.Headroom.MilliCPU += numa.MilliCPU
		out.Headroom.MemoryMiB += numa.MemoryMiB
		out.NUMANodes = append(out.NUMANodes, numa)
	}
	const milli = 1000
	for _, z := range l.node.Manager.Pools.NUMANodes() {
		out.Lent.MilliCPU += int64(z.Reclaimed.Len()) * milli
	}
	out.Lent.MemoryMiB = l.held / topology.Mebibyte
	return out
}

// giveBack ends all lending but the floor. It returns whether anything was lent.
func (l *lendingController) giveBack() (changed bool) {
	l.advice = advise.Advice{NUMANodes: make([]advise.NUMAAdvice, len(l.advice.NUMANodes)), Suppression: l.advice.Suppression}
	return l.resize()
}

// promised is what the reclaimed pods of the node may hold.
func (l *lendingController) promised() (sum spec.ReclaimedAmounts) {
	for _, uid := range l.node.Manager.UIDs() {
		if asked, pool, ok := l.node.Manager.Pod(uid); ok && pool == spec.PoolReclaimed {
			sum.MilliCPU, sum.MemoryMiB = sum.MilliCPU+asked.Reclaimed.MilliCPU, sum.MemoryMiB+asked.Reclaimed.MemoryMiB
		}
	}
	return sum
}

// terms are the parts of a sum, for people.
func terms(list []advise.Term, amount func(int64) string) string {
	words := make([]string, len(list))
	for i, t := range list {
		words[i] = t.Name + " " + amount(t.Value)
	}
	return strings.Join(words, ", ")
}

func milliText(v int64) string { return fmt.Sprintf("%dm", v) }
func bytesText(v int64) string { return fmt.Sprintf("%dMi", v/topology.Mebibyte) }

// heldBy is what the reclaimed pods hold of memory, as far as it is known, in bytes.
func heldBy(o *advise.Observation) (sum int64) {
	for i := range o.Reclaimed {
		if m := o.Reclaimed[i].Memory; m.Known {
			sum += int64(m.Value)
		}
	}
	return sum
}

// lawStateInterval is how often what the laws have learned is kept: an agent that starts again has lost no more than that. A node
// that was closed stays so, and a loan that harmed is remembered.
const lawStateInterval = 5 * time.Minute

// lawStateFile is what the laws have learned, ready for JSON. Times in it count from the boot.
type lawStateFile struct {
	Advise     advise.State     `json:"advise"`
	Evict      evict.State      `json:"evict"`
	Overcommit overcommit.State `json:"overcommit"`
	// Interference is an interference.State. What cannot be read of it makes the rest no worse.
	Interference json.RawMessage `json:"interference,omitempty"`
}

// lawState keeps what the laws have learned over a restart of the agent. What cannot be kept is learned anew: that costs some
// minutes of lending, and nothing else.
type lawState struct {
	node       *nodeState
	lending    *lendingController
	eviction   *evictionController
	overcommit *overcommitController
	harm       *interferenceController
	saver      *store.Saver
	saved      time.Time // when the state was last saved
}

func newLawState(n *nodeState, lending *lendingController, eviction *evictionController, over *overcommitController) *lawState {
	l := &lawState{node: n, lending: lending, eviction: eviction, overcommit: over, harm: over.interference}
	l.saver = store.NewSaver(n.Loop, n.Now, n.ports.LawState, func(err error) {
		if err != nil {
			n.Log.Warn("what was learned cannot be kept; after a restart it is learned anew", "err", err)
		}
	})
	l.load()
	return l
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
	l.save(in.now)
	return false
}

// end saves what was learned since the last time, for an agent that starts soon.
func (l *lawState) end(now time.Time) {
	if !l.saved.IsZero() {
		l.save(now)
	}
}

func (l *lawState) save(now time.Time) {
	data, err := json.Marshal(lawStateFile{l.lending.state, l.eviction.state, l.overcommit.state, l.harm.state()})
	if err != nil {
		l.node.Log.Error("what was learned cannot be kept", "err", err) // a mistake of ours
		return
	}
	l.saver.Save(data, now)
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
		n.Log.Warn("what was learned before cannot be read; it is learned anew", "err", err)
		return
	}
	l.lending.state, l.eviction.state, l.overcommit.state = known.Advise, known.Evict, known.Overcommit
	l.overcommit.state.Restore(n.Now())
	l.harm.restore(known.Interference)
}

// state is what was learned, to be kept; empty: nothing.
func (c *interferenceController) state() json.RawMessage {
	learned := c.learned
	if c.book != nil {
		learned = c.book.State()
	}
	if learned == nil {
		return nil
	}
	data, err := json.Marshal(learned)
	if err != nil {
		c.node.Log.Error("what was learned of harm cannot be kept", "err", err) // a mistake of ours
		return nil
	}
	return data
}

// restore takes over what an agent before this one has learned, for the book that begins.
func (c *interferenceController) restore(data json.RawMessage) {
	if len(data) == 0 {
		return
	}
	learned := &interference.State{}
	if err := json.Unmarshal(data, learned); err != nil {
		c.node.Log.Warn("what was learned of harm cannot be read; it is learned anew", "err", err)
		return
	}
	c.learned = learned
}
