package spec

import "time"

// ReschedulingMode is what the role controller does about pods that should be on other nodes.
type ReschedulingMode string

// The modes.
const (
	ReschedulingOff    ReschedulingMode = "Off"
	ReschedulingAdvise ReschedulingMode = "Advise" // it says in its log and metrics which pods it would move
	ReschedulingAuto   ReschedulingMode = "Auto"   // it moves them
)

// Rescheduling says whether and how the role controller moves running pods: each target is reserved before anybody is evicted.
// How many it may evict is in controller.disturbances.
type Rescheduling struct {
	// Mode is Off, Advise (say which pods should be moved) or Auto (move them).
	Mode ReschedulingMode `json:"mode"`
	// Interval is how often moves are looked for. Each time costs the leading scheduler a snapshot.
	Interval Duration `json:"interval" needs:"rescheduling.mode!=Off"`
	// MaxMoves bounds the moves of one plan.
	MaxMoves int `json:"maxMoves"`
	// MaxInFlight bounds the moves that are on their way at once.
	MaxInFlight int `json:"maxInFlight"`
	// MaxWorkloadPercent bounds how many pods of one workload start or are moved at once, in percent of its pods; it allows one at least. A pod starts until it has run for five minutes.
	// It bounds neither Jobs nor gangs, which are moved whole.
	MaxWorkloadPercent int `json:"maxWorkloadPercent"`
	// MaxWorkloadTimeLossPermille bounds how much of its pods' time a service may lose to moves off nodes that a TidePool gave to offline, in thousandths: with 1, one of 10 pods is moved in 500 minutes,
	// one of 100 in 50. The others stay beside offline work until then. 1000: no bound but the others.
	MaxWorkloadTimeLossPermille int `json:"maxWorkloadTimeLossPermille"`
	// MinAge is how long a pod has run before it is moved to a better place.
	MinAge Duration `json:"minAge"`
	// PodCooldown is for how long a pod that replaced a moved one is not moved to a better place. The next leader knows who was moved from the ConfigMap hilbert-moves, for seven days.
	PodCooldown Duration `json:"podCooldown"`
	// WorkloadCooldown is for how long no other pod of a workload is moved.
	WorkloadCooldown Duration `json:"workloadCooldown"`
	// PreemptForGrowth lets pods of lower priority be evicted where a pod is to grow on a node that is full, by the rules of preemption, if no moves make the room or moves cost more.
	PreemptForGrowth bool `json:"preemptForGrowth,omitempty"`
	// MaxLoadPercent is how much of its CPUs a node may use on average, by its agent's report, before pods leave it for nodes that use less. 0: load is no reason.
	MaxLoadPercent int `json:"maxLoadPercent,omitempty"`
	// Horizon is for how long a gain is counted against the work that is lost by beginning anew.
	Horizon Duration `json:"horizon"`
	// EvictionRequestTimeout is how long an EvictionRequest may take, by which pods are asked to leave where the API server serves lifecycle.k8s.io/v1alpha1. 0: pods are evicted at once.
	EvictionRequestTimeout Duration `json:"evictionRequestTimeout,omitempty"`
}

// maxCooldown is for how long it is known who was moved (reschedule.KeptFor).
const maxCooldown = 7 * 24 * time.Hour

func newRescheduling() Rescheduling {
	return Rescheduling{
		Mode: ReschedulingOff, Interval: Duration(10 * time.Minute), MaxMoves: 20, MaxInFlight: 10, MaxWorkloadPercent: 10, MaxWorkloadTimeLossPermille: 1, MinAge: Duration(2 * time.Hour),
		PodCooldown: Duration(24 * time.Hour), WorkloadCooldown: Duration(time.Hour), Horizon: Duration(24 * time.Hour),
	}
}

func validateRescheduling(r *Rescheduling, bad report) {
	oneOf(bad, "rescheduling.mode", string(r.Mode), string(ReschedulingOff), string(ReschedulingAdvise), string(ReschedulingAuto))
	if r.Interval < Duration(time.Second) {
		bad("rescheduling.interval", "%v is too short; write at least 1s", r.Interval.D())
	}
	for _, x := range []struct {
		field     string
		value, to int
	}{{"maxMoves", r.MaxMoves, 1000}, {"maxInFlight", r.MaxInFlight, 256}, {"maxWorkloadPercent", r.MaxWorkloadPercent, 100}, {"maxWorkloadTimeLossPermille", r.MaxWorkloadTimeLossPermille, 1000}} {
		if x.value < 1 || x.value > x.to {
			bad("rescheduling."+x.field, "%d is out of range; write a number from 1 to %d", x.value, x.to)
		}
	}
	for _, x := range []struct {
		field string
		value Duration
	}{{"podCooldown", r.PodCooldown}, {"workloadCooldown", r.WorkloadCooldown}} {
		if x.value > Duration(maxCooldown) {
			bad("rescheduling."+x.field, "%v is longer than it is known who was moved; write at most %v", x.value.D(), maxCooldown)
		}
	}
	if r.MaxLoadPercent < 0 || r.MaxLoadPercent > 100 {
		bad("rescheduling.maxLoadPercent", "%d is out of range; write a number from 1 to 100, or 0 where load is no reason to move pods", r.MaxLoadPercent)
	}
	for _, x := range []struct {
		field string
		value Duration
	}{{"minAge", r.MinAge}, {"podCooldown", r.PodCooldown}, {"workloadCooldown", r.WorkloadCooldown}, {"horizon", r.Horizon}, {"evictionRequestTimeout", r.EvictionRequestTimeout}} {
		if x.value < 0 {
			bad("rescheduling."+x.field, "%v is negative; write 0s or more", x.value.D())
		}
	}
}
