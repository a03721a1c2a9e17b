package vpa

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/recommend"
)

// Bounds of what is kept. An object beyond MaxObjects gets no recommendation, and its status says so.
const (
	MaxObjects    = 5000
	maxContainers = 16
	maxPods       = 1000 // of one object: of more, the first by name count
)

// Params are how the State decides.
type Params struct {
	Recommend recommend.Params
	Rollout   recommend.RolloutParams
	// ControlGroup is the share of pods, the oldest, that are never changed.
	ControlGroup float64
	// SaveEvery is how often profiles are saved.
	SaveEvery time.Duration
	// ChangePods obeys the modes InPlace and Recreate; without it nothing is changed.
	ChangePods bool
	// AtOnce is how many pods are disturbed by one Decide at most, whatever the budget has.
	AtOnce int
}

// DefaultParams are careful.
func DefaultParams() Params {
	return Params{Recommend: recommend.DefaultParams(), Rollout: recommend.DefaultRolloutParams(), ControlGroup: 0.1, SaveEvery: 10 * time.Minute, AtOnce: 1}
}

// Checkpoint is what is stored of an object.
type Checkpoint struct {
	UID        string                          `json:"uid"`
	Saved      time.Time                       `json:"saved"`
	Containers map[string]*ContainerCheckpoint `json:"containers"`
}

// ContainerCheckpoint is what is stored of a container.
type ContainerCheckpoint struct {
	Profile *recommend.Checkpoint `json:"profile"`
	Rollout recommend.Rollout     `json:"rollout,omitzero"`
	// RanOut is the newest killing for want of memory that counts in the profile.
	RanOut time.Time `json:"ranOut,omitzero"`
}

// State is what is known of all objects. It has one user at a time.
type State struct {
	params  Params
	floors  map[int]*recommend.Params // by the number of containers that share the floor
	objects map[Key]*workload
	freed   map[string][]freed // by node, the oldest first

	disturbed int
	left      LeftOut
}

// LeftOut counts what the last decision left out: objects beyond MaxObjects, and of objects that are served the pods beyond maxPods and the containers of pods beyond maxContainers.
type LeftOut struct{ Objects, Pods, Containers int }

// LeftOut is what the last decision left out.
func (s *State) LeftOut() LeftOut { return s.left }

// workload is what is known of one object.
type workload struct {
	uid        string
	containers map[string]*container
	saved      time.Time
	written    time.Time // the status
}

// container is what is known of a container of an object.
type container struct {
	profile *recommend.Profile
	rollout recommend.Rollout
	ranOut  time.Time
	pods    map[string]*seen // by UID
}

// seen is what was seen of a container of a pod.
type seen struct {
	has   recommend.Amounts
	since time.Time // it asks for that since then, as far as is known
	asked time.Time // a resize was asked for, and is not seen yet
	// refused is why the last resize was refused, and until when none is asked for.
	refused      string
	refusedUntil time.Time
	use          time.Time // the newest sample
	// samples were seen since then, and in so many of them it used its limit of CPU.
	samples, atLimit int
	// measured are samples of which it was measured how much it was throttled, throttledSum the sum of that.
	measured     int
	throttledSum float64
	ranOut       time.Time
	round        int64
}

// NewState knows nothing.
func NewState(p Params) *State {
	return &State{params: p, floors: make(map[int]*recommend.Params), objects: make(map[Key]*workload), freed: make(map[string][]freed)}
}

// recommendParams are those of a pod whose floor is shared by so many containers.
func (s *State) recommendParams(containers int) *recommend.Params {
	containers = min(max(containers, 1), maxContainers)
	p := s.floors[containers]
	if p == nil {
		own := s.params.Recommend
		own.Floor.CPU /= float64(containers)
		own.Floor.Memory /= float64(containers)
		p = &own
		s.floors[containers] = p
	}
	return p
}

// Restore takes in what was saved. What is of other parameters is left out and named in the error; the rest counts.
func (s *State) Restore(key Key, c *Checkpoint) error {
	w := &workload{uid: c.UID, containers: make(map[string]*container), saved: c.Saved}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(c.Containers)) {
		saved := c.Containers[name]
		if len(w.containers) == maxContainers || saved == nil || saved.Profile == nil {
			continue
		}
		profile, err := recommend.Restore(s.recommendParams(len(c.Containers)), saved.Profile)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("container %s of VerticalPodAutoscaler %s: %w", name, key, err))
			continue
		}
		w.containers[name] = &container{profile: profile, rollout: saved.Rollout, ranOut: saved.RanOut, pods: make(map[string]*seen)}
	}
	s.objects[key] = w
	return failed
}

// checkpoint is what to save of an object.
func (w *workload) checkpoint(now time.Time) *Checkpoint {
	c := &Checkpoint{UID: w.uid, Saved: now, Containers: make(map[string]*ContainerCheckpoint)}
	for name, k := range w.containers {
		c.Containers[name] = &ContainerCheckpoint{Profile: k.profile.Checkpoint(), Rollout: k.rollout, RanOut: k.ranOut}
	}
	return c
}

// see counts what the view has of an object's pods.
func (s *State) see(o *Object, now time.Time) *workload {
	w := s.objects[o.Key]
	if w == nil || w.uid != o.UID {
		w = &workload{uid: o.UID, containers: make(map[string]*container), saved: now}
		s.objects[o.Key] = w
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		for k := range p.Containers {
			c := &p.Containers[k]
			known := w.containers[c.Name]
			if known == nil {
				if len(w.containers) == maxContainers {
					s.left.Containers++
					continue
				}
				known = &container{profile: recommend.NewProfile(s.recommendParams(len(p.Containers))), pods: make(map[string]*seen)}
				w.containers[c.Name] = known
			}
			known.see(p, c, now)
		}
	}
	for _, known := range w.containers {
		for uid, p := range known.pods {
			if p.round != now.UnixNano() {
				delete(known.pods, uid)
			}
		}
	}
	return w
}

// atLimit is the share of its limit from which on a container's use counts as all of it: samples are means over half a minute or so.
const atLimit = 0.95

func (k *container) see(p *Pod, c *Container, now time.Time) {
	known := k.pods[p.UID]
	if known == nil {
		known = &seen{has: c.Requests, since: k.since(p, now)}
		k.pods[p.UID] = known
	}
	known.round = now.UnixNano()
	if known.has != c.Requests {
		since := now
		if !known.asked.IsZero() {
			since = known.asked // what happened before the change was seen counts too
		}
		*known = seen{has: c.Requests, since: since, use: known.use, ranOut: known.ranOut, round: known.round}
	}
	if c.UseAt.After(known.use) && !c.UseAt.After(now.Add(time.Minute)) {
		known.use = c.UseAt
		k.profile.See(c.Use, now)
		if c.UseAt.After(known.since) {
			known.samples++
			if c.Limits.CPU > 0 && c.Use.CPU >= atLimit*c.Limits.CPU {
				known.atLimit++
			}
			if c.ThrottledKnown {
				known.measured++
				known.throttledSum += c.Throttled
			}
		}
	}
	if c.RanOut.After(known.ranOut) {
		known.ranOut = c.RanOut
		if had := max(c.Limits.Memory, c.Requests.Memory); c.RanOut.After(k.ranOut) && !c.RanOut.After(now) {
			k.ranOut = c.RanOut
			k.profile.RanOut(had, c.RanOut)
		}
	}
}

// refusedFor is for how long a container is left alone whose resize was refused: what refuses it, such as a node that resizes no pods, rarely ends in a minute.
const refusedFor = 10 * time.Minute

// Refused notes that the API server has refused a resize.
func (s *State) Refused(key Key, r *Resize, why string, now time.Time) {
	w := s.objects[key]
	if w == nil || w.containers[r.Container] == nil {
		return
	}
	if known := w.containers[r.Container].pods[r.Pod.UID]; known != nil {
		known.refused, known.refusedUntil, known.asked = why, now.Add(refusedFor), time.Time{}
	}
}

// EvictionRefused notes that the API server has refused an eviction: nobody was disturbed, and the budget has back what was taken for it. Else those whose disruption budgets refuse would use up
// what others have to be moved and resized with.
func (s *State) EvictionRefused(b *budget.Budget) {
	s.disturbed--
	b.GiveBack(1)
}

// since is since when a pod that is new to us asks for what it does: at least since a rollout changed it, else since now, which delays what depends on it.
func (k *container) since(p *Pod, now time.Time) time.Time {
	for _, b := range k.rollout.Changed {
		if b.Pod == p.Name && k.rollout.Began.After(p.Created) {
			return k.rollout.Began
		}
	}
	if now.Sub(p.Created) < time.Hour {
		return p.Created
	}
	return now
}

// ranOutSince reports whether it ran out of memory with what it asks for now. The kubelet tells whole seconds.
func (s *seen) ranOutSince() bool {
	return !s.ranOut.IsZero() && !s.ranOut.Before(s.since.Truncate(time.Second))
}

// leastSamples is how many samples say whether a container is throttled.
const leastSamples = 3

// throttled is the share of time in which its limit throttled the container, as measured; where that is not, the share of samples in which it used all that the limit allows. NaN: too
// few are known. Without a limit nothing throttles it.
func (s *seen) throttled(c *Container) float64 {
	switch {
	case c.Limits.CPU == 0:
		return 0
	case s.measured >= leastSamples:
		return s.throttledSum / float64(s.measured)
	case s.samples < leastSamples:
		return math.NaN()
	}
	return float64(s.atLimit) / float64(s.samples)
}
