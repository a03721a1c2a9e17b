package daemon

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/tracing"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// meter counts and times what the pipeline does; it is the schedule.Observer. All but its metrics belongs to the loop's goroutine.
type meter struct {
	registry *prometheus.Registry
	now      func() time.Time
	log      *slog.Logger

	placed, unplaced, rejected, preempting         attempt
	rejections                                     *prometheus.CounterVec
	released, missedWakeups                        prometheus.Counter
	sli                                            prometheus.Histogram
	bindings, conditions                           *prometheus.CounterVec
	evictions                                      *prometheus.CounterVec
	victims                                        prometheus.Counter
	reliefs, events                                *prometheus.CounterVec
	unitTime                                       prometheus.Histogram
	unitConditions, queueStatuses, volumes, claims *prometheus.CounterVec
	reservations                                   *prometheus.CounterVec
	bindingTime                                    prometheus.Histogram
	leader, guarded                                prometheus.Gauge
	blockedPods                                    *prometheus.GaugeVec
	unreadable                                     prometheus.Counter
	configuration                                  *configurationMeter

	lap     time.Time                    // when the decision under way began
	waiting map[facts.UID]time.Time      // when each unbound pod of ours became placeable
	blocked map[facts.UID]uint64         // the filters that refused each pod that fits nowhere, as bits
	filters map[string]int               // filter to bit
	gauges  [maxFilters]prometheus.Gauge // by bit
	gangs   gangClock
	traces  *tracing.Recorder // nil: nothing is traced
}

// maxFilters bounds the filters that have a bit of their own in blocked.
const maxFilters = 64

// attempt is the metrics of one kind of decision.
type attempt struct {
	count prometheus.Counter
	time  prometheus.Observer
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func newMeter(now func() time.Time, log *slog.Logger) *meter {
	m := &meter{
		registry: prometheus.NewRegistry(), now: now, log: log,
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_plans_rejected_total", Help: "Plans that the committer rejected, by reason.",
		}, []string{"reason"}),
		released: counter("hilbert_bindings_released_total",
			"Placements given up, because a write failed or for a pod of higher priority. The pod is pending again."),
		missedWakeups: counter("hilbert_missed_wakeups_total",
			"Pods and gangs that slept and found places only because they were tried again without a reason. Each is a defect: please report it."),
		sli: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hilbert_pod_scheduling_sli_duration_seconds",
			Help:    "Time from the moment when a pod was first seen without scheduling gates to its Binding.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 18), // 5 ms to 11 min
		}),
		bindings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_bindings_total", Help: "Writes of Bindings that were answered, by outcome. The rate of outcome=\"written\" is the bind throughput.",
		}, []string{"outcome"}),
		conditions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_condition_writes_total", Help: "Writes of the pod condition PodScheduled=False, by outcome.",
		}, []string{"outcome"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_preemption_writes_total", Help: "Writes for preemption, by kind (nomination, disruption: the DisruptionTarget condition, deletion) and outcome.",
		}, []string{"kind", "outcome"}),
		victims: counter("hilbert_preemption_victims_total", "Victims of preemption. A victim counts once for each pod that waits for it."),
		bindingTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hilbert_binding_duration_seconds", Help: "Time that the write of a Binding took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
		}),
		unitTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hilbert_unit_placement_duration_seconds",
			Help:    "Time from the moment when the first member of a gang was seen until as many as it needs have a place.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20), // 10 ms to 1.5 h
		}),
		volumes: newVolumeWrites(), claims: newClaimWrites(), reservations: newReservationWrites(),
		unitConditions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_unit_condition_writes_total", Help: "Writes of the conditions of PodGroups, by outcome.",
		}, []string{"outcome"}),
		queueStatuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_queue_status_writes_total", Help: "Writes of the status of Queues, by outcome.",
		}, []string{"outcome"}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hilbert_leader", Help: "1 while this process is the leader.",
		}),
		blockedPods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hilbert_unschedulable_pods", Help: "Pods that fit on no node, by filter. A pod counts under each filter that refused a node.",
		}, []string{"filter"}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hilbert_numa_node_promises_unreadable_total", Help: "Readings of bound pods whose promise of NUMA nodes cannot be read, so that it is guessed. A pod is read at each of its updates.",
		}),
		filters: make(map[string]int), reliefs: newReliefs(), events: newEvents(), guarded: newGuarded(), configuration: newConfigurationMeter(),
	}
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_scheduling_attempts_total", Help: "Decisions about pods, by result.",
	}, []string{"result"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "hilbert_scheduling_attempt_duration_seconds",
		Help:    "Time that a decision took, without the write of its Binding.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 4, 12), // 1 µs to 4 s
	}, []string{"result"})
	m.placed = attempt{attempts.WithLabelValues("scheduled"), durations.WithLabelValues("scheduled")}
	m.unplaced = attempt{attempts.WithLabelValues("unschedulable"), durations.WithLabelValues("unschedulable")}
	m.rejected = attempt{attempts.WithLabelValues("rejected"), durations.WithLabelValues("rejected")}
	m.preempting = attempt{attempts.WithLabelValues("preempting"), durations.WithLabelValues("preempting")}
	m.registry.MustRegister(upstreamNames{attempts, m.sli}, attempts, durations, m.rejections, m.released, m.missedWakeups, m.sli, m.bindings, m.conditions, m.evictions, m.victims, m.bindingTime, m.leader, m.guarded, m.blockedPods,
		m.reliefs, m.events, m.unitTime, m.unitConditions, m.volumes, m.claims, m.queueStatuses, m.reservations, m.unreadable)
	m.registry.MustRegister(append(m.configuration.collectors(), endpoints.ProcessCollectors()...)...)
	m.reset(cluster.NewStore())
	return m
}

// trace has the ways of pods traced, if the configuration wants it, until end is called.
func (m *meter) trace(config spec.Tracing) (end func(), err error) {
	traces, err := tracing.New(config, m.log)
	if err != nil || traces == nil {
		return func() {}, err
	}
	m.traces = traces
	m.registry.MustRegister(traces)
	return func() {
		if err := traces.Close(m.now()); err != nil {
			m.log.Warn("traces are lost", "err", err)
		}
	}, nil
}

// newReliefs makes the counter of evictions that nodes request.
func newReliefs() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_reclaimed_evictions_total", Help: "Evictions through the Eviction API, of reclaimed pods that nodes requested and of gangs that are given up, by outcome; withheld means that a disruption budget refused.",
	}, []string{"outcome"})
}

// newGuarded makes the gauge of the admission policies.
func newGuarded() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hilbert_promise_policies_in_force", Help: "1 while the admission policies are seen in force without which promises could be forged; 0: nothing is promised. Where they are not asked for it is 0.",
	})
}

// newEvents makes the counter of Events.
func newEvents() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_events_written_total", Help: "Writes of Events, of hilbertd's own and of those that nodes' agents report, by outcome; refused is also what another leader has written.",
	}, []string{"outcome"})
}

// reset forgets all pods: a new term begins with an empty ledger.
func (m *meter) reset(store *cluster.Store) {
	m.traces.Reset(m.now())
	m.gangs = gangClock{store: store, seen: make(map[facts.UnitName]time.Time)}
	m.waiting = make(map[facts.UID]time.Time)
	m.blocked = make(map[facts.UID]uint64)
	for _, gauge := range m.gauges {
		if gauge != nil {
			gauge.Set(0)
		}
	}
}

// lapBegins starts the clock for the next decision.
func (m *meter) lapBegins() { m.lap = m.now() }

func (m *meter) lapEnds(a attempt) {
	now := m.now()
	a.count.Inc()
	a.time.Observe(now.Sub(m.lap).Seconds())
	m.lap = now
}

// Placed implements schedule.Observer.
func (m *meter) Placed(pod *cluster.Pod, now time.Time) {
	m.lapEnds(m.placed)
	m.traces.Placed(pod, m.waiting[pod.UID], now)
	m.unblock(pod.UID)
	m.clockGang(pod, now)
}

// Preempting implements schedule.Observer.
func (m *meter) Preempting(pod *cluster.Pod, victims []*cluster.Pod, now time.Time) {
	m.lapEnds(m.preempting)
	m.traces.Preempting(pod, len(victims), m.waiting[pod.UID], now)
	m.victims.Add(float64(len(victims)))
	m.unblock(pod.UID)
}

// Cleared implements schedule.Observer.
func (m *meter) Cleared(pod *cluster.Pod, now time.Time) {
	m.traces.Cleared(pod, m.waiting[pod.UID], now)
	m.clockGang(pod, now)
}

// Rejected implements schedule.Observer.
func (m *meter) Rejected(reason string, _ time.Time) {
	m.lapEnds(m.rejected)
	m.rejections.WithLabelValues(reason).Inc()
}

// Unschedulable implements schedule.Observer.
func (m *meter) Unschedulable(pod *cluster.Pod, reasons []schedule.FilterCount, now time.Time) {
	m.lapEnds(m.unplaced)
	m.traces.Unschedulable(pod, reasons, m.waiting[pod.UID], now)
	var set uint64
	for i := range reasons {
		if bit, ok := m.filter(reasons[i].Filter); ok {
			set |= 1 << bit
		}
	}
	m.unblock(pod.UID)
	if set == 0 {
		return
	}
	m.blocked[pod.UID] = set
	m.count(set, 1)
}

// Bound implements schedule.Observer.
func (m *meter) Bound(pod *cluster.Pod, now time.Time) {
	m.traces.Bound(pod, now)
	if since, ok := m.waiting[pod.UID]; ok {
		m.sli.Observe(now.Sub(since).Seconds())
		delete(m.waiting, pod.UID)
	}
}

// Released implements schedule.Observer.
func (m *meter) Released(pod *cluster.Pod, message string, now time.Time) {
	m.released.Inc()
	m.traces.Released(pod, message, m.waiting[pod.UID], now)
}

// MissedWakeup implements schedule.Observer.
func (m *meter) MissedWakeup(pod *cluster.Pod, _ time.Time) {
	m.missedWakeups.Inc()
	m.log.Error("a pod that slept has found a place only because it was tried again: its wake-up was missed, which is a defect",
		"pod", pod.Namespace+"/"+pod.Name)
}

// filter gives a filter its bit and its gauge.
func (m *meter) filter(name string) (bit int, ok bool) {
	if bit, ok = m.filters[name]; ok {
		return bit, true
	}
	if len(m.filters) == maxFilters {
		return 0, false
	}
	bit = len(m.filters)
	m.filters[name] = bit
	m.gauges[bit] = m.blockedPods.WithLabelValues(name)
	return bit, true
}

func (m *meter) unblock(uid facts.UID) {
	if set, ok := m.blocked[uid]; ok {
		delete(m.blocked, uid)
		m.count(set, -1)
	}
}

func (m *meter) count(set uint64, by float64) {
	for bit := 0; set != 0; bit, set = bit+1, set>>1 {
		if set&1 != 0 {
			m.gauges[bit].Add(by)
		}
	}
}

// note keeps the waiting pods up to date. It is called after the scheduler has applied the event.
func (m *meter) note(event facts.Event, now time.Time) {
	switch e := event.(type) {
	case facts.PodUpserted:
		m.notePod(&e.Pod, now)
	case facts.PodRemoved:
		m.settle(e.UID, now)
	case facts.PodsListed:
		listed := make(map[facts.UID]bool, len(m.waiting))
		for i := range e.Pods {
			m.notePod(&e.Pods[i], now)
			listed[e.Pods[i].UID] = true
		}
		for uid := range m.waiting {
			if !listed[uid] {
				m.settle(uid, now)
			}
		}
	}
}

func (m *meter) notePod(pod *facts.Pod, now time.Time) {
	if !pod.Ours {
		return
	}
	if pod.Node != "" || pod.Finished || pod.Deleting {
		m.settle(pod.UID, now)
		return
	}
	if pod.Gated {
		return
	}
	if _, known := m.waiting[pod.UID]; !known {
		m.waiting[pod.UID] = now
	}
	if pod.Unit != "" {
		m.gangs.waits(facts.UnitName{Namespace: pod.Namespace, Name: pod.Unit}, now)
	}
}

func (m *meter) settle(uid facts.UID, now time.Time) {
	m.traces.Gone(uid, now)
	delete(m.waiting, uid)
	m.unblock(uid)
}

func newReservationWrites() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_reservation_status_writes_total", Help: "Writes of the status of Reservations, by outcome.",
	}, []string{"outcome"})
}

func newVolumeWrites() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_volume_writes_total", Help: "Writes that tell a claim its node, or a volume its claim, by outcome.",
	}, []string{"outcome"})
}

func newClaimWrites() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_resource_claim_writes_total",
		Help: "Writes that give ResourceClaims their devices and reserve them (allocation), or take that back after a placement that failed (give_back), by outcome.",
	}, []string{"write", "outcome"})
}

// sent counts an answered write. It is called by the writer's goroutines.
func (m *meter) sent(kind bind.WriteKind, outcome bind.Outcome, took time.Duration) {
	switch kind {
	case bind.WriteBinding:
		m.bindings.WithLabelValues(outcomeNames[outcome]).Inc()
		m.bindingTime.Observe(took.Seconds())
	case bind.WriteCondition:
		m.conditions.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.WriteNomination, bind.WriteDisruption, bind.DeletePod:
		m.evictions.WithLabelValues(evictionNames[kind], outcomeNames[outcome]).Inc()
	case bind.WriteUnitCondition:
		m.unitConditions.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.WriteVolume:
		m.volumes.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.WriteClaim:
		m.claims.WithLabelValues("allocation", outcomeNames[outcome]).Inc()
	case bind.GiveBackClaim:
		m.claims.WithLabelValues("give_back", outcomeNames[outcome]).Inc()
	case bind.EvictPod:
		m.reliefs.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.WriteEvent, bind.WriteNodeEvent:
		m.events.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.WriteReservation:
		m.reservations.WithLabelValues(outcomeNames[outcome]).Inc()
	case bind.ReadPod, bind.WriteRefusals:
	}
}

var evictionNames = map[bind.WriteKind]string{bind.WriteNomination: "nomination", bind.WriteDisruption: "disruption", bind.DeletePod: "deletion"}

var outcomeNames = map[bind.Outcome]string{
	bind.Written: "written", bind.Gone: "gone", bind.Conflict: "conflict", bind.Refused: "refused", bind.Unknown: "unknown", bind.NotSent: "not_sent",
	bind.Withheld: "withheld",
}
