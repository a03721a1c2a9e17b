package node

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/node/scrape"
)

// interferenceController watches services for harm by their neighbours (interference.Book), reports it, and in mode act limits the culprit, and asks for its eviction.
//
// A limit is cpu.max of the pod's own cgroup, which the kubelet leaves at "max" where a container of the pod has no limit. A pod with a limit of its own is left alone. The period
// of our limits is one that nobody else uses: so an agent that starts, and hilbert's cleanup, know what one before it has left, and take it away.
type interferenceController struct {
	node     *nodeState
	profiles *profileController
	book     *interference.Book
	rules    interference.Rules
	acted    bool                   // in the last observation
	decision *interference.Decision // nil: there is none yet
	at       time.Time              // of the last observation
	known    [signalsKnown]bool     // whether any service had the signal in the last observation
	counters processorCounters
	limits   map[string]*cpuLimit   // by UID
	looked   map[string]bool        // pods whose cgroup was read for what another agent has left, by UID
	told     map[string]string      // what was told of a victim last, by UID
	names    map[string]spec.PodRef // of culprits to be kept apart, which may have gone
	queues   *runQueueController
	memory   *memoryBandwidth
	evicted  time.Time           // when a pod was last evicted, before nothing was done for a while
	learned  *interference.State // what is known from before the book; nil: nothing
}

// cpuLimit is the limit of a pod that has one for interference, or had.
type cpuLimit struct {
	value string // of cpu.max
	rests time.Time
}

// The signals that may be unknown on a whole node.
const (
	knownDelay = iota
	knownPressure
	signalsKnown
)

const (
	noLimit = "max 100000"
	// maxInterferenceAge is how old a decision may be that still stands.
	maxInterferenceAge = time.Minute
	kubeSystem         = "kube-system"
)

// limitPeriod is the period of our limits as cpu.max has it.
var limitPeriod = strconv.Itoa(enforce.LimitPeriod)

func newInterferenceController(n *nodeState, profiles *profileController, memory *memoryBandwidth) *interferenceController {
	return &interferenceController{
		node: n, profiles: profiles, memory: memory, queues: &runQueueController{node: n}, counters: processorCounters{poller: n.options.Counters}, limits: make(map[string]*cpuLimit), looked: make(map[string]bool), told: make(map[string]string), names: make(map[string]spec.PodRef),
	}
}

// rulesOf are the rules as the configuration has them.
func rulesOf(c *spec.NodeInterference) interference.Rules {
	r := interference.DefaultRules()
	r.Watch.High, r.Watch.Correlation, r.Watch.Apart = c.Deviations, c.Correlation, c.Apart.D()
	r.Watch.Quiet = max(int(c.ReleaseAfter.D()/interference.Length), r.Watch.Patience)
	r.Share, r.EvictPause = c.LimitShare, c.EvictPause.D()
	return r
}

func (c *interferenceController) config() *spec.NodeInterference {
	return &c.node.options.Config.Interference
}

// acts reports whether anything is done.
func (c *interferenceController) acts() bool { return c.config().Mode == spec.InterferenceAct }

// Tick implements controller.
func (c *interferenceController) Tick(in *inputs) (changed bool) {
	c.at = in.now
	if c.config().Mode == spec.InterferenceOff {
		c.book, c.decision = nil, nil
		c.queues.look(nil)
		clear(c.told)
		c.counters.stop()
		return c.limit(in.now)
	}
	if rules := rulesOf(c.config()); c.book == nil || rules != c.rules {
		c.begin(rules, in.now)
	}
	if acts := c.acts(); acts != c.acted { // nobody is evicted at once who was never limited
		if c.acted {
			c.evicted = c.book.Evicted()
		}
		c.acted, c.decision = acts, nil
		c.book.Restart(c.evicted)
	}
	if d := c.book.Step(in.now, c.readings(in.seen)); d != nil {
		c.decision = d
		names := make(map[string]spec.PodRef, len(d.Apart))
		for _, pair := range d.Apart {
			if names[pair.Culprit] = c.names[pair.Culprit]; c.node.Pods.Of(pair.Culprit) != nil {
				names[pair.Culprit] = c.node.Pods.Of(pair.Culprit).Ref
			}
		}
		c.names = names
		c.tell()
	}
	c.queues.look(c.probed())
	return c.limit(in.now)
}

// begin begins a book, with what the one before it has learned, or that of an agent before this one.
func (c *interferenceController) begin(rules interference.Rules, now time.Time) {
	learned := c.learned
	if c.book != nil {
		learned = c.book.State()
	} else {
		c.acted = c.acts()
	}
	c.learned, c.rules = nil, rules
	c.book, c.decision = interference.NewBook(&c.rules), nil
	if learned == nil {
		return
	}
	services, err := c.book.Restore(learned, now)
	if err != nil {
		c.node.Log.Warn("how services usually fare is learned anew", "err", err)
		return
	}
	c.node.Log.Info("how services usually fare is known from before", "services", services, "since", learned.At)
}

// probed are the services of which it shall be looked for whom they wait.
func (c *interferenceController) probed() []string {
	if c.decision == nil || !c.config().RunQueueProbe {
		return nil
	}
	return c.decision.Probe
}

// readings are the pods as the Book sees them.
func (c *interferenceController) readings(o *observation) (out []interference.Reading) {
	c.known = [signalsKnown]bool{}
	c.counters.begin()
	defer c.counters.watch()
	const milli = 1000
	ahead := c.queues.take()
	for _, p := range c.node.Pods.Sorted() {
		asked, pool, ok := c.node.Manager.Pod(p.Ref.UID)
		if !ok || p.Cgroup == "" {
			continue
		}
		online := pool != spec.PoolReclaimed && pool != spec.PoolSystem
		r := interference.Reading{
			ID: p.Ref.UID, Name: p.Ref.String(), Watched: online && !p.BestEffort && asked.MilliCPU > 0, Request: float64(asked.MilliCPU) / milli, Limitable: c.limitable(p, pool),
			Evictable: pool == spec.PoolReclaimed, Use: orNaN(rateOf(o.use(p.Cgroup).CPU.Usage)), Delay: math.NaN(), Pressure: math.NaN(), Indicator: math.NaN(), Cycles: math.NaN(),
			Bandwidth: orNaN(c.memory.of(p, c.at)),
		}
		if !o.throttles(p) { // the probe would have it wait for whoever runs while its own limit keeps it from running
			r.Ahead = ahead[p.Ref.UID]
		}
		if r.Watched {
			r.Delay, r.Pressure, r.Indicator = orNaN(o.runDelay(p)), orNaN(o.pressureOf(p)), orNaN(c.profiles.metric(p, o.laws.Wall))
			if c.config().Counters {
				r.Cycles = orNaN(c.counters.cycles(p, r.Request, o.laws.Wall))
			}
			c.known[knownDelay] = c.known[knownDelay] || !math.IsNaN(r.Delay)
			c.known[knownPressure] = c.known[knownPressure] || !math.IsNaN(r.Pressure)
		}
		out = append(out, r)
	}
	return out
}

func orNaN(s advise.Sample) float64 {
	if !s.Known {
		return math.NaN()
	}
	return s.Value
}

// limitable reports whether a pod may be limited as a culprit. Which limit it has already is read when it is one.
func (c *interferenceController) limitable(p *pods.Pod, pool string) bool {
	switch {
	case pool == spec.PoolReclaimed:
		return true
	case pool == "", pool == spec.PoolSystem, p.Ref.Namespace == kubeSystem: // it has CPUs of its own, or the cluster needs it
		return false
	}
	return c.config().Culprits == spec.CulpritsShared
}

// limit gives the culprits that the decision names their limits, and takes others back.
func (c *interferenceController) limit(now time.Time) (changed bool) {
	wanted := make(map[string]string)
	if d := c.current(now); d != nil && c.acts() {
		for _, l := range d.Limits {
			wanted[l.ID] = quotaOf(l.CPUs)
		}
	}
	changed = c.makeWay()
	for _, p := range c.node.Pods.Sorted() {
		changed = c.look(p) || changed
		known, value := c.limits[p.Ref.UID], wanted[p.Ref.UID]
		switch {
		case known != nil && (value == "" || now.Before(known.rests)):
			value = noLimit
			if known.value == noLimit && !now.Before(known.rests) && !c.ours(p) {
				delete(c.limits, p.Ref.UID) // what it has from now on is not ours to say
				changed = true
				continue
			}
		case value == "" || known == nil && !c.unlimited(p):
			continue
		case known == nil:
			known = &cpuLimit{}
			c.limits[p.Ref.UID] = known
			c.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonCulpritLimited, Message: "it gets less CPU for a while, because it harms a service of the node"})
		}
		if known.value != value {
			known.value, changed = value, true
		}
	}
	return changed
}

// quotaOf is cpu.max for some CPUs.
func quotaOf(cpus float64) string {
	const least = 1000 // the kernel takes no less than a millisecond
	return strconv.FormatInt(max(int64(cpus*enforce.LimitPeriod), least), 10) + " " + limitPeriod
}

// current is the decision that stands; nil: none does.
func (c *interferenceController) current(now time.Time) *interference.Decision {
	if c.decision == nil || now.Sub(c.at) > maxInterferenceAge {
		return nil
	}
	return c.decision
}

// look finds a limit that an agent before this one has left, once a pod.
func (c *interferenceController) look(p *pods.Pod) (found bool) {
	if p.Cgroup == "" || c.looked[p.Ref.UID] {
		return false
	}
	c.looked[p.Ref.UID] = true
	if c.limits[p.Ref.UID] == nil && c.ours(p) {
		c.limits[p.Ref.UID] = &cpuLimit{value: noLimit}
		return true
	}
	return false
}

// ours reports whether a pod's limit is of an agent: it has our period, and is one.
func (c *interferenceController) ours(p *pods.Pod) bool {
	quota, period := c.cpuMax(p)
	return quota != "" && quota != "max" && period == limitPeriod
}

// unlimited reports whether a pod has no limit of its own.
func (c *interferenceController) unlimited(p *pods.Pod) bool {
	quota, _ := c.cpuMax(p)
	return quota == "max"
}

// makeWay forgets the limits of pods that the kubelet has given one of their own meanwhile: that one counts, and is not written over. It reports whether there were any.
func (c *interferenceController) makeWay() (any bool) {
	for uid := range c.limits {
		if quota, period := c.cpuMax(c.podOf(uid)); quota != "" && quota != "max" && period != limitPeriod {
			delete(c.limits, uid)
			any = true
		}
	}
	return any
}

// cpuMax reads the limit of a pod's own cgroup; empty: it is not known.
func (c *interferenceController) cpuMax(p *pods.Pod) (quota, period string) {
	if p.Cgroup == "" {
		return "", ""
	}
	text, err := c.node.options.Kernel.Read(p.Cgroup + "/" + enforce.CPUMax)
	if err != nil {
		return "", ""
	}
	quota, period, _ = strings.Cut(strings.TrimSpace(text), " ")
	return quota, period
}

// yield takes a pod's limit away before its limits may change. It reports whether there was one.
func (c *interferenceController) yield(p *pods.Pod) (had bool) {
	if p == nil {
		return false
	}
	c.look(p)
	had = c.makeWay() // the kubelet writes the pod's own cgroup before, where its limits grow
	if known := c.limits[p.Ref.UID]; known != nil {
		had = had || known.value != noLimit
		known.value, known.rests = noLimit, c.node.Now().Add(restAfterUpdate)
	}
	return had
}

// giveBack takes all limits away. It reports whether there were any.
func (c *interferenceController) giveBack() (had bool) {
	c.decision = nil
	had = c.makeWay()
	for _, l := range c.limits {
		had = had || l.value != noLimit
		l.value = noLimit
	}
	return had
}

// knobs are the limits of pods that have one, or had. On a node that does not lend no Tick comes: what was left there is found here.
func (c *interferenceController) knobs() (out []enforce.DesiredKnob) {
	gone := func(uid string) bool { return c.node.Pods.Of(uid) == nil }
	maps.DeleteFunc(c.limits, func(uid string, _ *cpuLimit) bool { return gone(uid) })
	maps.DeleteFunc(c.looked, func(uid string, _ bool) bool { return gone(uid) })
	maps.DeleteFunc(c.told, func(uid, _ string) bool { return gone(uid) })
	for _, p := range c.node.Pods.Sorted() {
		c.look(p)
		if l := c.limits[p.Ref.UID]; l != nil && p.Cgroup != "" {
			out = append(out, enforce.Desire(p.Cgroup, enforce.CPUMax, l.value))
		}
	}
	return out
}

// stopsGrowth reports whether nothing more is to be lent.
func (c *interferenceController) stopsGrowth(now time.Time) bool {
	d := c.current(now)
	return d != nil && d.StopGrowth && c.acts()
}

// requests are the evictions that are asked for.
func (c *interferenceController) requests() []spec.EvictionRequest {
	d := c.current(c.node.Now())
	if d == nil || d.Evict == "" || !c.acts() || c.node.options.Config.Lending.Evictions != spec.EvictionsOn {
		return nil
	}
	p := c.node.Pods.Of(d.Evict)
	if p == nil {
		return nil
	}
	return []spec.EvictionRequest{{Namespace: p.Ref.Namespace, Name: p.Ref.Name, UID: p.Ref.UID, Reason: spec.ReasonInterference, Message: d.Why}}
}

// tell has an event written for each finding that is new, or has come to another step.
func (c *interferenceController) tell() {
	found := make(map[string]bool)
	for i := range c.decision.Findings {
		f := &c.decision.Findings[i]
		found[f.Victim] = true
		p := c.node.Pods.Of(f.Victim)
		if what := string(f.Step) + f.Culprit; p != nil && c.told[f.Victim] != what {
			c.told[f.Victim] = what
			c.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonInterference, Message: fmt.Sprintf("%s: %s", c.step(f), f.Reason)})
		}
	}
	maps.DeleteFunc(c.told, func(uid, _ string) bool { return !found[uid] })
}

// step is what is done about a finding, or would be.
func (c *interferenceController) step(f *interference.Finding) string {
	switch {
	case f.Step == interference.StopGrowth:
		return spec.InterferenceGrowthStopped
	case f.Step == interference.Evict:
		return spec.InterferenceEvicting
	case f.LeftAlone || c.acts() && c.limits[f.Culprit] == nil && !c.unlimited(c.podOf(f.Culprit)):
		return spec.InterferenceLeftAlone
	}
	return spec.InterferenceLimited
}

// podOf is a pod by UID; one that has gone has nothing.
func (c *interferenceController) podOf(uid string) *pods.Pod {
	if p := c.node.Pods.Of(uid); p != nil {
		return p
	}
	return &pods.Pod{}
}

// status is what the report says now; nil: nothing is watched.
func (c *interferenceController) status(now time.Time) *spec.Interference {
	d := c.current(now)
	if d == nil {
		return nil
	}
	out := &spec.Interference{Mode: c.config().Mode, Watched: d.Watched, Learning: d.Learning, Unknown: c.unknown(d)}
	for i := range d.Findings {
		f := &d.Findings[i]
		victim := c.node.Pods.Of(f.Victim)
		if victim == nil || len(out.Findings) == spec.MaxInterferenceFindings {
			continue
		}
		finding := spec.InterferenceFinding{Victim: victim.Ref, Step: c.step(f), Message: report.Message(f.Reason)}
		if culprit := c.node.Pods.Of(f.Culprit); culprit != nil {
			finding.Culprit = &culprit.Ref
		}
		out.Findings = append(out.Findings, finding)
	}
	for _, pair := range d.Apart {
		victim, culprit := c.node.Pods.Of(pair.Victim), c.names[pair.Culprit]
		if c.acts() && victim != nil && culprit != (spec.PodRef{}) && len(out.Apart) < spec.MaxApartHints {
			out.Apart = append(out.Apart, spec.ApartHint{Victim: victim.Ref, Culprit: culprit, Until: pair.Until.UTC().Truncate(time.Second)})
		}
	}
	return out
}

// unwatched are the services beyond interference.MaxWatched.
func (c *interferenceController) unwatched(now time.Time) int {
	if d := c.current(now); d != nil {
		return d.Unwatched
	}
	return 0
}

// unknown are the signals that the node does not have.
func (c *interferenceController) unknown(d *interference.Decision) (out []string) {
	if lacks := c.counters.lacks(c.config().Counters); lacks != "" {
		out = append(out, lacks)
	}
	if lacks := c.memory.lacks(); lacks != "" {
		out = append(out, lacks)
	}
	if d.Watched > 0 && !c.known[knownDelay] {
		out = append(out, interference.Delay.String())
	}
	if d.Watched > 0 && !c.known[knownPressure] {
		out = append(out, interference.Pressure.String())
	}
	if c.config().RunQueueProbe && (c.node.options.RunQueues == nil || c.queues.why != "") {
		out = append(out, spec.InterferenceRunQueues)
	}
	return out
}

// metric is what a pod's profile wants to know of it by its own metrics: the first that is known.
func (c *profileController) metric(p *pods.Pod, now time.Time) advise.Sample {
	if p.Profile == nil {
		return advise.Sample{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.Profile.Indicators {
		r, known := c.results[metricKey{p.Ref.UID, i}]
		if known && p.Profile.Indicators[i].Type == spec.IndicatorMetric && r.Outcome == scrape.Read && now.Sub(r.At) <= maxMetricAge {
			return advise.Known(r.Value)
		}
	}
	return advise.Sample{}
}

// counts are how often each step was decided.
func (c *interferenceController) counts() map[interference.Kind]uint64 {
	if c.book == nil {
		return nil
	}
	return maps.Clone(c.book.Actions)
}
