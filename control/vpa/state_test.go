package vpa

import (
	"fmt"
	"maps"
	"math"
	"slices"
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

// TestTooManyObjects: those beyond the bound get a status that says so, and nothing is kept of their pods.
func TestTooManyObjects(t *testing.T) {
	s, v := NewState(DefaultParams()), View{}
	for i := range MaxObjects + 2 {
		o := object(1, "")
		o.Name, o.UID = fmt.Sprintf("web-%05d", MaxObjects+2-i), fmt.Sprint(i)
		v.Objects = append(v.Objects, o)
	}
	told := make(map[string]bool)
	for _, a := range s.Decide(&v, nil, start) {
		if a.Status == nil {
			continue
		}
		if c := a.Status.condition(ConfigUnsupported); c != nil && c.True {
			told[a.Object.Name] = len(s.objects[a.Object].containers) == 0
		}
	}
	if want := map[string]bool{"web-05001": true, "web-05002": true}; !maps.Equal(told, want) {
		t.Errorf("told that they are too many: %v, want %v", told, want)
	}
	if got := s.LeftOut(); got != (LeftOut{Objects: 2}) {
		t.Errorf("left out %+v", got)
	}
	other := object(1, "") // its namespace is behind the others by name, and has no other
	other.Namespace, other.UID = "zoo", "other"
	v.Objects = append(v.Objects, other)
	s.Decide(&v, nil, start)
	if w := s.objects[other.Key]; w == nil || len(w.containers) == 0 || s.LeftOut().Objects != 3 {
		t.Errorf("a namespace is kept out by another one: %+v, %+v", w, s.LeftOut())
	}
}

// TestTooManyPodsAndContainers: those of one object that are left out are counted.
func TestTooManyPodsAndContainers(t *testing.T) {
	s := NewState(DefaultParams())
	o := object(maxPods+2, "")
	one := o.Pods[0].Containers[0]
	for i := range maxContainers + 2 {
		one.Name = fmt.Sprint("c", i)
		o.Pods[0].Containers = append(o.Pods[0].Containers, one)
	}
	s.Decide(&View{Objects: []Object{o}}, nil, start)
	if got := s.LeftOut(); got.Pods != 2 || got.Containers < 2 || got.Objects != 0 {
		t.Errorf("left out %+v", got)
	}
}

// TestPodsInAnyOrder: a place is kept for the pod whose UID it names, in whatever order the API server lists pods.
func TestPodsInAnyOrder(t *testing.T) {
	o := object(2, "")
	for i := range o.Pods {
		o.Pods[i].UID = fmt.Sprintf("%036d", i)
	}
	o.Pods[1].Resize = recommend.ResizeInProgress
	grows, done := placeName(&o.Pods[1], "app"), placeName(&o.Pods[0], "app")
	slices.Reverse(o.Pods)
	v := View{Objects: []Object{o}, Reservations: true, LendersKnown: true, Places: []Place{{Namespace: "shop", Name: grows}, {Namespace: "shop", Name: done}}}
	var released []string
	for _, a := range NewState(DefaultParams()).Decide(&v, nil, start) {
		if a.Release != nil {
			released = append(released, a.Release.Name)
		}
	}
	if !slices.Equal(released, []string{done}) {
		t.Errorf("released %v, want only %s: the other pod is being resized", released, done)
	}
}

// TestOneObjectChangesAPod: of two objects with the same pods the first by name changes them, and the other one says so.
func TestOneObjectChangesAPod(t *testing.T) {
	p := DefaultParams()
	p.ChangePods, p.ControlGroup = true, 0
	s, b, now := NewState(p), budget.New(budget.Limits{Burst: 1000}, start), start
	first, second := object(1, "InPlace"), object(1, "InPlace")
	first.Name, second.Name, second.UID = "a", "b", "v2"
	second.Policies = []ContainerPolicy{{Container: "app", Policy: recommend.Policy{Max: recommend.Amounts{CPU: 1}}}}
	v := View{Objects: []Object{second, first}, Reservations: true, LendersKnown: true}
	changes, said := make(map[string]int), ""
	for range 400 {
		now = now.Add(5 * time.Minute)
		for i := range v.Objects {
			c := &v.Objects[i].Pods[0].Containers[0]
			c.Use, c.UseAt = recommend.Sample{CPU: 0.5, Memory: 1 << 30}, now
		}
		for _, a := range s.Decide(&v, b, now) {
			if a.Resize != nil {
				changes[a.Object.Name]++
			}
			if a.Status != nil && a.Object.Name == "b" {
				said = a.Status.condition(Applied).Message
			}
		}
	}
	if changes["a"] == 0 || changes["b"] != 0 || said != "pod a: VerticalPodAutoscaler shop/a changes it" {
		t.Errorf("resizes by object: %v; the second says %q", changes, said)
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
			v := View{Objects: []Object{o}, Reservations: true, LendersKnown: true}
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
