package spec

import "time"

// Controller configures the role controller.
type Controller struct {
	// Recommendation is about what pods should ask for.
	Recommendation Recommendation `json:"recommendation" needs:"controller.recommendation.enabled"`
	// Tides has nodes of TidePools change hands between services and offline work.
	Tides Tides `json:"tides" needs:"controller.tides.enabled"`
	// Disturbances bounds how many pods are disturbed, for recommendations, moves and TidePools together.
	Disturbances Disturbances `json:"disturbances" needs:"rescheduling.mode=Auto|controller.tides.enabled|controller.recommendation.changePods"`
	// Requests is about ResourceRequests.
	Requests Requests `json:"requests" needs:"controller.requests.enabled"`
}

// Requests says whether and how ResourceRequests are answered with pods.
type Requests struct {
	// Enabled makes pods for the ResourceRequests of all namespaces. It needs the rights of deploy/controller/requests.yaml.
	Enabled bool `json:"enabled,omitempty"`
	// PodsPerSecond is how many pods are made in a second.
	PodsPerSecond int `json:"podsPerSecond"`
	// MaxWaitingPerNamespace bounds the pods of a namespace that wait for a node: no more are made for its ResourceRequests meanwhile.
	MaxWaitingPerNamespace int `json:"maxWaitingPerNamespace"`
}

// Tides says whether nodes of TidePools change hands.
type Tides struct {
	// Enabled reads TidePools, gives their nodes to sides, and moves pods off nodes of the other side, each to a target that is reserved. It needs the rights of
	// deploy/controller: advise.yaml, moves.yaml and tides.yaml.
	Enabled bool `json:"enabled,omitempty"`
	// Interval is how often everything is decided anew. Each time costs the leading scheduler a snapshot, where there is a TidePool.
	Interval Duration `json:"interval"`
}

// Recommendation says whether and how requests are recommended, in the statuses of VerticalPodAutoscalers that name the recommender.
type Recommendation struct {
	// Enabled reads VerticalPodAutoscalers of autoscaling.k8s.io/v1, the pods of their targets and what they use, and writes the statuses.
	Enabled bool `json:"enabled,omitempty"`
	// Recommender is the name in spec.recommenders of the VerticalPodAutoscalers that are served. Others are left alone.
	Recommender string `json:"recommender"`
	// Interval is how often use is read, and everything is decided anew.
	Interval Duration `json:"interval"`
	// CheckpointInterval is how often what is known of use is saved, in ConfigMaps of the Lease's namespace.
	CheckpointInterval Duration `json:"checkpointInterval"`
	// ChangePods obeys the modes InPlace and Recreate of VerticalPodAutoscalers. Without it no pod is changed. It needs the rights of deploy/controller/recommendation-changes.yaml.
	ChangePods bool `json:"changePods,omitempty"`
	// ControlGroupPercent is the share of a target's pods, the oldest, that are never changed, so that the others can be compared with them.
	ControlGroupPercent int `json:"controlGroupPercent" needs:"controller.recommendation.changePods"`
	// Rollout says how pods are brought to less.
	Rollout RecommendationRollout `json:"rollout" needs:"controller.recommendation.changePods"`
}

// RecommendationRollout says how careful pods are brought to less than they ask for: one, then a share of them, then all.
type RecommendationRollout struct {
	// CanaryPercent is the share of pods that are changed after the first one.
	CanaryPercent int `json:"canaryPercent"`
	// Watch is how long changed pods are watched before more are changed.
	Watch Duration `json:"watch"`
	// ConfidencePercent is the least confidence in a recommendation that pods are changed with. After a day of use it is 50.
	ConfidencePercent int `json:"confidencePercent"`
	// ThrottledPercent is by how much more of its time a changed pod may be throttled than the control group before the change is taken back.
	ThrottledPercent int `json:"throttledPercent"`
	// ShrinkAfter is for how long a pod has to be unchanged before it is given less.
	ShrinkAfter Duration `json:"shrinkAfter"`
	// Pause is how long nothing is tried after a change was taken back; it doubles each time.
	Pause Duration `json:"pause"`
}

// Disturbances bounds how many pods are evicted, or have containers restarted, by all that the role controller does: recommendations, moves and TidePools take from one budget.
type Disturbances struct {
	// PodsPerHour is how many pods in the long run; 0: none.
	PodsPerHour int `json:"podsPerHour"`
	// Burst is how many pods at once after a quiet time. A new leader begins with none, unless nobody led before. A recommendation disturbs one pod in each interval at most. A gang for which room is made by more moves than this waits for ever.
	Burst int `json:"burst"`
}

func newController() Controller {
	return Controller{
		Recommendation: Recommendation{
			Recommender: "hilbert", Interval: Duration(time.Minute), CheckpointInterval: Duration(10 * time.Minute), ControlGroupPercent: 10,
			Rollout: RecommendationRollout{
				CanaryPercent: 10, Watch: Duration(time.Hour), ConfidencePercent: 50, ThrottledPercent: 5, ShrinkAfter: Duration(6 * time.Hour), Pause: Duration(6 * time.Hour),
			},
		},
		Tides:        Tides{Interval: Duration(30 * time.Second)},
		Disturbances: Disturbances{PodsPerHour: 60, Burst: 20},
		Requests:     Requests{PodsPerSecond: 1000, MaxWaitingPerNamespace: 5000},
	}
}

func validateController(c *Controller, bad report) {
	r := &c.Recommendation
	if r.Recommender == "" {
		bad("controller.recommendation.recommender", "it is empty; write a name, or leave the field out for hilbert")
	}
	for _, x := range []struct {
		field       string
		value       Duration
		least, most time.Duration
	}{
		{"interval", r.Interval, time.Second, time.Hour},
		{"checkpointInterval", r.CheckpointInterval, time.Second, 24 * time.Hour},
		{"rollout.watch", r.Rollout.Watch, 0, 7 * 24 * time.Hour},
		{"rollout.shrinkAfter", r.Rollout.ShrinkAfter, 0, 7 * 24 * time.Hour},
		{"rollout.pause", r.Rollout.Pause, 0, 7 * 24 * time.Hour},
	} {
		if x.value.D() < x.least || x.value.D() > x.most {
			bad("controller.recommendation."+x.field, "%v is not between %v and %v", x.value.D(), x.least, x.most)
		}
	}
	for _, x := range []struct {
		field        string
		value, least int
	}{
		{"controlGroupPercent", r.ControlGroupPercent, 0},
		{"rollout.canaryPercent", r.Rollout.CanaryPercent, 1},
		{"rollout.confidencePercent", r.Rollout.ConfidencePercent, 0},
		{"rollout.throttledPercent", r.Rollout.ThrottledPercent, 0},
	} {
		if x.value < x.least || x.value > 100 {
			bad("controller.recommendation."+x.field, "%d is not between %d and 100", x.value, x.least)
		}
	}
	if t := c.Tides.Interval.D(); t < time.Second || t > time.Hour {
		bad("controller.tides.interval", "%v is not between %v and %v", t, time.Second, time.Hour)
	}
	d := &c.Disturbances
	if d.PodsPerHour < 0 {
		bad("controller.disturbances.podsPerHour", "%d is less than 0", d.PodsPerHour)
	}
	if d.Burst < 1 {
		bad("controller.disturbances.burst", "%d is less than 1; for no disturbances write podsPerHour: 0", d.Burst)
	}
	q := &c.Requests
	if q.PodsPerSecond < 1 || q.PodsPerSecond > 10_000 {
		bad("controller.requests.podsPerSecond", "%d is out of range; write a number from 1 to 10000", q.PodsPerSecond)
	}
	// A gang of 1000, the largest that a ResourceRequest may ask for, would never fit into less.
	if q.MaxWaitingPerNamespace < 1000 || q.MaxWaitingPerNamespace > 100_000 {
		bad("controller.requests.maxWaitingPerNamespace", "%d is out of range; write a number from 1000 to 100000", q.MaxWaitingPerNamespace)
	}
}
