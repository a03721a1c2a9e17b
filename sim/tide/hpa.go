package tide

import (
	"math"
	"time"
)

// The defaults of upstream's HorizontalPodAutoscaler: kube-controller-manager's flags and the API's default behaviour.
const (
	syncPeriod    = 15 * time.Second
	tolerance     = 0.1
	stabilization = 5 * time.Minute
	// Up: the greater of 4 pods and 100 % each 15 s. Down: 100 % each 15 s.
	upPods  = 4
	upShare = 1.0
)

// hpa scales by an external metric with a target by pod, as pkg/controller/podautoscaler has it.
type hpa struct {
	target   float64 // of the metric, by pod
	low      int
	high     int
	recent   []int // recommendations of the stabilization window, the oldest first
	replicas int
}

// sync is one look each syncPeriod. A metric that is no number leaves all as it is.
func (h *hpa) sync(metric float64) int {
	if math.IsNaN(metric) {
		return h.replicas
	}
	desired := h.replicas
	if ratio := metric / (h.target * float64(h.replicas)); math.Abs(1-ratio) > tolerance {
		desired = int(math.Ceil(metric / h.target))
	}
	h.recent = append(h.recent, desired)
	if n := int(stabilization / syncPeriod); len(h.recent) > n {
		h.recent = h.recent[len(h.recent)-n:]
	}
	if desired < h.replicas { // down: the most of the window
		most := desired
		for _, r := range h.recent {
			most = max(most, r)
		}
		desired = min(most, h.replicas)
	}
	up := max(h.replicas+upPods, int(math.Ceil(float64(h.replicas)*(1+upShare))))
	h.replicas = min(max(min(desired, up), h.low), h.high)
	return h.replicas
}
