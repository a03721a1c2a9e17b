package controller

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/control/reschedule"
)

// moveMeter exports what becomes of moves.
type moveMeter struct {
	plans             *prometheus.CounterVec
	steps             *prometheus.CounterVec
	ended             *prometheus.CounterVec
	begun, evicted    prometheus.Counter
	forGrowth         prometheus.Counter
	inFlight, advised atomic.Int64
	restarts          atomic.Int64
	// history is how large the record is of who was moved, unwritten how often it could not be written.
	history   atomic.Int64
	unwritten prometheus.Counter
}

var (
	historyBytes    = prometheus.NewDesc("hilbert_move_history_bytes", "Size of the record of who was moved, as it was written last. It keeps seven days, and less where it would have more than 384 KiB.", nil, nil)
	movesInFlight   = prometheus.NewDesc("hilbert_moves_in_flight", "Moves of pods that are on their way.", nil, nil)
	restartsAdvised = prometheus.NewDesc("hilbert_restarts_advised", "Gangs that would be in fewer domains of the label that they prefer if they restarted, as of the last plan; at most four are told. Nobody is evicted for it.", nil, nil)
	movesAdvised    = prometheus.NewDesc("hilbert_moves_advised", "Moves of the last plan, rehearsed by the scheduler.", nil, nil)
)

// moveEnds name the last stages of moves.
var moveEnds = map[reschedule.Stage]string{
	reschedule.Done: "done", reschedule.GivenBack: "given_back", reschedule.Stayed: "stayed", reschedule.LostTarget: "target_lost",
}

var moveSteps = map[reschedule.Do]string{reschedule.Reserve: "reserve", reschedule.Evict: "evict", reschedule.GiveBack: "give_back", reschedule.Withdraw: "withdraw", reschedule.QueueFirst: "queue_first"}

func newMoveMeter() *moveMeter {
	m := &moveMeter{
		plans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hilbert_move_plans_total", Help: "Plans of moves, by result: made or failed."}, []string{"result"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_move_steps_total", Help: "Steps of moves that were done, by step (reserve, evict, withdraw, give_back, queue_first) and result (done or failed).",
		}, []string{"step", "result"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_moves_ended_total",
			Help: "Moves that have ended: the replacement has the target (done), nobody was evicted or no replacement came (given_back), the eviction was refused for too long (stayed), or the target was lost after the eviction (target_lost).",
		}, []string{"end"}),
		begun:   prometheus.NewCounter(prometheus.CounterOpts{Name: "hilbert_moves_begun_total", Help: "Moves that were begun."}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{Name: "hilbert_moves_evicted_total", Help: "Pods that were evicted for a move. Each had a reserved target."}),
	}
	m.forGrowth = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hilbert_growth_preemptions_total", Help: "Pods of lower priority that were named as those that may be evicted for the growth of others. Each was taken from the budget of disturbances.",
	})
	m.unwritten = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hilbert_move_history_failures_total", Help: "Attempts to write down who was moved that failed. Until one succeeds nobody else is moved.",
	})
	for _, end := range moveEnds {
		m.ended.WithLabelValues(end)
	}
	return m
}

func (m *moveMeter) did(what reschedule.Do, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.steps.WithLabelValues(moveSteps[what], result).Inc()
}

func (m *moveMeter) remembered(bytes int, err error) {
	if err != nil {
		m.unwritten.Inc()
		return
	}
	m.history.Store(int64(bytes))
}

// permitted counts pods that may be evicted for a growth.
func (m *moveMeter) permitted(n int, err error) {
	if err == nil {
		m.forGrowth.Add(float64(n))
	}
}

// add counts what has happened since before.
func (m *moveMeter) add(before, now *reschedule.Counts, inFlight int) {
	m.begun.Add(float64(now.Begun - before.Begun))
	m.evicted.Add(float64(now.Evicted - before.Evicted))
	for stage, end := range moveEnds {
		m.ended.WithLabelValues(end).Add(float64(now.Ended[stage] - before.Ended[stage]))
	}
	m.inFlight.Store(int64(inFlight))
}

// Describe implements prometheus.Collector.
func (m *moveMeter) Describe(out chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.plans, m.steps, m.ended, m.begun, m.evicted, m.forGrowth, m.unwritten} {
		c.Describe(out)
	}
	out <- historyBytes
	out <- movesInFlight
	out <- restartsAdvised
	out <- movesAdvised
}

// Collect implements prometheus.Collector.
func (m *moveMeter) Collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.plans, m.steps, m.ended, m.begun, m.evicted, m.forGrowth, m.unwritten} {
		c.Collect(out)
	}
	out <- prometheus.MustNewConstMetric(historyBytes, prometheus.GaugeValue, float64(m.history.Load()))
	out <- prometheus.MustNewConstMetric(movesInFlight, prometheus.GaugeValue, float64(m.inFlight.Load()))
	out <- prometheus.MustNewConstMetric(movesAdvised, prometheus.GaugeValue, float64(m.advised.Load()))
	out <- prometheus.MustNewConstMetric(restartsAdvised, prometheus.GaugeValue, float64(m.restarts.Load()))
}
