package vpa

import (
	"math"
	"testing"
	"time"

	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/recommend"
)

// object is one whose pods use all that their limit allows.
func object(pods int, mode string) Object {
	o := Object{Key: Key{"shop", "web"}, UID: "v1", UpdateMode: UpdateInitial, Mode: mode, PodsKnown: true}
	for i := range pods {
		name := string(rune('a' + i))
		o.Pods = append(o.Pods, Pod{Namespace: "shop", Name: name, UID: name, Node: "n1", Created: start.Add(-48 * time.Hour), Containers: []Container{{
			Name: "app", Requests: recommend.Amounts{CPU: 2, Memory: 4 << 30}, Limits: recommend.Amounts{CPU: 4}, Use: recommend.Sample{CPU: 4, Memory: 1 << 30},
		}}})
	}
	return o
}

// TestSampleCountsOnce: a sample that was read before is none, nor one from the future.
func TestSampleCountsOnce(t *testing.T) {
	s := NewState(DefaultParams())
	o := object(1, "")
	v := View{Objects: []Object{o}}
	c := &o.Pods[0].Containers[0]
	s.Decide(&v, nil, start)
	for i := range 2 {
		c.UseAt = start.Add(time.Duration(i+1) * time.Minute)
		for range 5 {
			s.Decide(&v, nil, start.Add(time.Duration(i+2)*time.Minute))
		}
	}
	known := s.objects[o.Key].containers["app"]
	if n := known.profile.Sampled(); n != 2 {
		t.Errorf("%d samples count, want 2", n)
	}
	if share := known.pods["a"].throttled(c); !math.IsNaN(share) {
		t.Errorf("two samples say that it is throttled for %g", share)
	}
	c.UseAt = start.Add(time.Hour)
	s.Decide(&v, nil, start.Add(4*time.Minute))
	if n := known.profile.Sampled(); n != 2 {
		t.Errorf("a sample of the future counts")
	}
	c.UseAt = start.Add(4 * time.Minute)
	s.Decide(&v, nil, start.Add(5*time.Minute))
	if share := known.pods["a"].throttled(c); share != 1 {
		t.Errorf("it is throttled for %g, want 1", share)
	}
	if c.Limits.CPU = 0; known.pods["a"].throttled(c) != 0 {
		t.Error("without a limit it is throttled")
	}
}

// TestChangesAreOff: without ChangePods no mode changes a pod; with it evictions come out of the one budget.
func TestChangesAreOff(t *testing.T) {
	for _, changes := range []bool{false, true} {
		for _, mode := range []string{"InPlace", "Recreate"} {
			p := DefaultParams()
			p.ChangePods, p.ControlGroup = changes, 0
			s, b, now := NewState(p), budget.New(budget.Limits{PerHour: 0, Burst: 1000}, start), start
			o := object(4, mode)
			v := View{Objects: []Object{o}, Reservations: true}
			evicted, resized := 0, 0
			for range 400 {
				now = now.Add(5 * time.Minute)
				for i := range o.Pods {
					c := &o.Pods[i].Containers[0]
					c.Use, c.UseAt = recommend.Sample{CPU: 0.5, Memory: 1 << 30}, now
				}
				for _, a := range s.Decide(&v, b, now) {
					if a.Evict != nil {
						evicted++
					}
					if a.Resize != nil {
						resized++
					}
				}
			}
			if did := evicted+resized > 0; did != changes || s.Disturbed() != evicted || b.Left(now) != 1000-evicted {
				t.Errorf("mode %s, changePods %t: %d evictions of which the budget knows %d, %d resizes", mode, changes, evicted, s.Disturbed(), resized)
			}
		}
	}
}
