package spec

import (
	"strings"
	"testing"
)

// TestValidateControllerNamesTheField breaks one field at a time; the message must name it.
func TestValidateControllerNamesTheField(t *testing.T) {
	for field, spoil := range map[string]func(*Controller){
		"recommendation.recommender":               func(c *Controller) { c.Recommendation.Recommender = "" },
		"recommendation.interval":                  func(c *Controller) { c.Recommendation.Interval = 0 },
		"recommendation.checkpointInterval":        func(c *Controller) { c.Recommendation.CheckpointInterval = 0 },
		"recommendation.controlGroupPercent":       func(c *Controller) { c.Recommendation.ControlGroupPercent = 101 },
		"recommendation.rollout.canaryPercent":     func(c *Controller) { c.Recommendation.Rollout.CanaryPercent = 0 },
		"recommendation.rollout.watch":             func(c *Controller) { c.Recommendation.Rollout.Watch = -1 },
		"recommendation.rollout.confidencePercent": func(c *Controller) { c.Recommendation.Rollout.ConfidencePercent = -1 },
		"recommendation.rollout.throttledPercent":  func(c *Controller) { c.Recommendation.Rollout.ThrottledPercent = 101 },
		"recommendation.rollout.shrinkAfter":       func(c *Controller) { c.Recommendation.Rollout.ShrinkAfter = -1 },
		"recommendation.rollout.pause":             func(c *Controller) { c.Recommendation.Rollout.Pause = -1 },
		"disturbances.podsPerHour":                 func(c *Controller) { c.Disturbances.PodsPerHour = -1 },
		"disturbances.burst":                       func(c *Controller) { c.Disturbances.Burst = 0 },
	} {
		c := Default()
		spoil(&c.Controller)
		if err := Validate(c); err == nil || !strings.Contains(err.Error(), "controller."+field) {
			t.Errorf("%s: %v does not name the field", field, err)
		}
	}
}
