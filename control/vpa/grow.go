package vpa

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// places are the Reservations of a round.
type places struct {
	byName  map[Key]*Place
	pods    map[string]*Pod // of all objects, by UID
	unknown map[string]bool // namespaces of objects whose pods are not known
	used    map[Key]bool
}

func newPlaces(v *View) places {
	p := places{byName: make(map[Key]*Place), pods: make(map[string]*Pod), unknown: make(map[string]bool), used: make(map[Key]bool)}
	for i := range v.Places {
		if !strings.HasPrefix(v.Places[i].Name, placePrefix) {
			continue // somebody's own, whatever its label says: it is not ours to give back
		}
		p.byName[Key{v.Places[i].Namespace, v.Places[i].Name}] = &v.Places[i]
	}
	for i := range v.Objects {
		o := &v.Objects[i]
		if !o.PodsKnown {
			p.unknown[o.Namespace] = true
		}
		for k := range o.Pods {
			p.pods[o.Pods[k].UID] = &o.Pods[k]
		}
	}
	return p
}

// placePrefix begins the name of a Reservation for a pod's growth; the pod's UID and the container's number follow.
const placePrefix = "resize-"

func placeName(p *Pod, container string) string {
	for i := range p.Containers {
		if p.Containers[i].Name == container {
			return placePrefix + p.UID + "-" + strconv.Itoa(i)
		}
	}
	return ""
}

// podOf is the UID in a Reservation's name.
func podOf(name string) string {
	const uuid = 36
	if len(name) < len(placePrefix)+uuid {
		return ""
	}
	return name[len(placePrefix) : len(placePrefix)+uuid]
}

// leftover gives back the places that nobody needs any more: the pod is gone, or has what it was to have and the kubelet has done it.
func (p *places) leftover() (out []Action) {
	for _, key := range slices.SortedFunc(maps.Keys(p.byName), func(a, b Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if p.used[key] || p.unknown[key.Namespace] {
			continue
		}
		reason := "its pod is gone"
		if pod := p.pods[podOf(key.Name)]; pod != nil {
			if pod.Resize != recommend.ResizeNone {
				continue
			}
			reason = "its pod has what it was to have, or is to have no more"
		}
		out = append(out, Action{Release: p.byName[key], Reason: reason})
	}
	return out
}

// resize changes a container of a pod, once the ledger has the room for its growth.
func (d *decision) resize(w *work, a *recommend.Action) {
	p := w.pods[a.Pod]
	if p == nil {
		return
	}
	if known := w.known.pods[p.UID]; known != nil && d.now.Before(known.refusedUntil) {
		w.round.wait(p.Name, fmt.Sprintf("its resize was refused, and is tried again at %s: %s", known.refusedUntil.UTC().Format(time.RFC3339), known.refused))
		return // its room, if any, is given back
	}
	c := p.container(w.name)
	to, problem := w.round.keep(c, a.To)
	if to == c.Requests {
		w.round.wait(p.Name, problem)
		return
	}
	grows := recommend.Amounts{CPU: max(to.CPU-c.Requests.CPU, 0), Memory: max(to.Memory-c.Requests.Memory, 0)}
	if grows != (recommend.Amounts{}) {
		place := d.room(w, p, c.Requests, grows)
		if place == nil {
			return
		}
		to = recommend.Amounts{CPU: upTo(c.Requests.CPU, to.CPU, place.From.CPU, place.Amounts.CPU), Memory: upTo(c.Requests.Memory, to.Memory, place.From.Memory, place.Amounts.Memory)}
		if to == c.Requests {
			d.giveBack(w, p, "its room is used, and it is to have more")
			return
		}
	}
	disturbs := c.Restarts && to.Memory != c.Requests.Memory
	if disturbs && !d.take() {
		w.round.wait(p.Name, "the budget for disturbed pods is used up")
		return
	}
	w.known.pods[p.UID].asked = d.now
	d.gaveUp(p.Node, c.Requests, to)
	w.round.do(Action{Resize: &Resize{Pod: p, Container: w.name, Requests: to, Limits: w.round.limits(c, to), Disturbs: disturbs}, Reason: a.Reason})
}

// upTo is how far a container may grow in its place: what was asked for before the target grew is used, the rest is asked for next. A place is used once: what the
// container has grown since counts.
func upTo(has, to, from, by float64) float64 {
	return max(has, min(to, from+by, has+by))
}

// room is the place that is reserved for a pod's growth; nil: there is none yet, and what is needed for that is under way.
func (d *decision) room(w *work, p *Pod, has, grows recommend.Amounts) *Place {
	if !d.v.Reservations {
		w.round.wait(p.Name, "it is to grow, and the API server has no Reservations, in which the scheduler would keep the room: kubectl apply -f deploy/crds")
		return nil
	}
	key := Key{p.Namespace, placeName(p, w.name)}
	place := d.places.byName[key]
	d.places.used[key] = true
	switch {
	case place == nil:
		w.round.do(Action{Reserve: &Reserve{Name: key.Name, Pod: p, From: has, Amounts: grows}, Reason: "it is to grow by " + words(grows)})
		w.round.wait(p.Name, fmt.Sprintf("room for %s more on node %s is asked of the scheduler", words(grows), p.Node))
		return nil
	case place.State == PlaceGone || place.State == PlaceReserved && place.Node != p.Node:
		d.giveBack(w, p, "its room went to others: "+cmp.Or(place.Reason, "it is on node "+place.Node))
		return nil
	case place.State == PlaceWaiting && (place.Amounts.CPU > grows.CPU*1.1 || place.Amounts.Memory > grows.Memory*1.1):
		d.giveBack(w, p, "less room is needed now")
		return nil
	case place.State == PlaceWaiting:
		w.round.wait(p.Name, fmt.Sprintf("node %s has no room for %s more: %s", p.Node, words(place.Amounts), cmp.Or(place.Reason, "the scheduler has not answered yet")))
		return nil
	}
	return place
}

// giveBack deletes a place; the next round asks for another one.
func (d *decision) giveBack(w *work, p *Pod, reason string) {
	w.round.do(Action{Release: d.places.byName[Key{p.Namespace, placeName(p, w.name)}], Reason: reason})
	w.round.wait(p.Name, reason)
}

// keep leaves alone what a resize would be refused for: a pod's QoS class has to stay.
func (r *round) keep(c *Container, to recommend.Amounts) (recommend.Amounts, string) {
	requestsOnly := r.requestsOnly(c.Name)
	problem := "it has what it is to have"
	for _, x := range []struct {
		name        string
		to          *float64
		has, limits float64
	}{{"CPU", &to.CPU, c.Requests.CPU, c.Limits.CPU}, {"memory", &to.Memory, c.Requests.Memory, c.Limits.Memory}} {
		switch {
		case *x.to == x.has:
		case x.has == 0:
			*x.to, problem = 0, "it asks for no "+x.name+", and a request would change its QoS class"
		case requestsOnly && x.limits == x.has:
			*x.to, problem = x.has, "its request of "+x.name+" is its limit, which controlledValues RequestsOnly leaves alone"
		case requestsOnly && x.limits > 0 && *x.to >= x.limits:
			*x.to = max(x.limits-1, x.has) // a request that is the limit may change the QoS class
			if x.name == "CPU" {
				*x.to = max(math.Floor(1000*x.limits-1)/1000, x.has)
			}
		}
	}
	return to, problem
}

func (r *round) requestsOnly(container string) bool {
	p := r.object.policy(container)
	return p != nil && p.Policy.RequestsOnly
}

// limits keep their ratio to requests, as VPA has it, or stay.
func (r *round) limits(c *Container, to recommend.Amounts) recommend.Amounts {
	if r.requestsOnly(c.Name) {
		return c.Limits
	}
	limits := c.Limits
	if c.Limits.CPU > 0 && to.CPU != c.Requests.CPU {
		limits.CPU = math.Ceil(c.Limits.CPU/c.Requests.CPU*to.CPU*1000-1e-6) / 1000
	}
	if c.Limits.Memory > 0 && to.Memory != c.Requests.Memory {
		limits.Memory = math.Ceil(c.Limits.Memory/c.Requests.Memory*to.Memory - 1e-3)
	}
	if c.Limits.CPU == c.Requests.CPU {
		limits.CPU = to.CPU
	}
	if c.Limits.Memory == c.Requests.Memory {
		limits.Memory = to.Memory
	}
	return limits
}

// words writes amounts for people.
func words(a recommend.Amounts) string {
	cpu, memory := fmt.Sprintf("%.0fm CPU", 1000*a.CPU), fmt.Sprintf("%.0f MiB", math.Ceil(a.Memory/mebibyte))
	switch {
	case a.Memory == 0:
		return cpu
	case a.CPU == 0:
		return memory
	}
	return cpu + " and " + memory
}
