package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// The types and reasons of a NodeConfiguration's conditions.
const (
	// ConditionValid is False where the object has a mistake. What it said before stays in force.
	ConditionValid = "Valid"
	// ConditionRolledOut is True once all targeted nodes were told of what the object says and those that answer have applied it.
	ConditionRolledOut = "RolledOut"

	ReasonAccepted    = "Accepted"
	ReasonInvalid     = "Invalid"
	ReasonComplete    = "Complete"
	ReasonProgressing = "Progressing"
	ReasonWaiting     = "Waiting"
	ReasonPaused      = "Paused"
	ReasonRolledBack  = "RolledBack"
	ReasonExpired     = "Expired"
)

// Decide returns the writes that are due, statuses on which nodes wait first; and when time alone would bring others, zero: never.
func Decide(v *View, now time.Time, p Params) (actions []Action, wake time.Time) {
	w := newWorld(v, now, p)
	for _, s := range w.states {
		status, conditions, at := w.advance(s)
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
		if e := s.Spec.Expires; e != nil && now.Before(*e) && (wake.IsZero() || e.Before(wake)) {
			wake = *e
		}
		actions = append(actions, Action{Status: &StatusWrite{Object: s.Name, Status: status, Conditions: conditions, Changed: !sameProgress(&s.Status, &status)}})
	}
	for i := range w.view.Nodes {
		n := &w.view.Nodes[i]
		if wanted := w.wanted(n); !sameWanted(wanted, n.Wanted) {
			actions = append(actions, Action{Tell: &Tell{Node: n.Name, Wanted: wanted}})
		}
	}
	return actions, wake
}

// sameProgress reports whether two statuses have nodes told the same.
func sameProgress(a, b *spec.NodeConfigurationStatus) bool {
	x, y := *a, *b
	x.Nodes, y.Nodes = spec.ConfigurationNodes{}, spec.ConfigurationNodes{}
	x.ObservedGeneration, y.ObservedGeneration = 0, 0
	if x.Rollout != nil && y.Rollout != nil {
		r, s := *x.Rollout, *y.Rollout
		r.Message, s.Message = "", ""
		x.Rollout, y.Rollout = &r, &s
	}
	return reflect.DeepEqual(x, y)
}

func sameWanted(a, b *spec.WantedConfiguration) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func() bool {
		return bytes.Equal(a.Parameters, b.Parameters) || a.Parameters.Hash() == b.Parameters.Hash()
	}
	return a.Name == b.Name && a.Revision == b.Revision && a.Hash == b.Hash && same()
}

// advance is the status that an object should have now. Nodes follow once it is written.
func (w *world) advance(s *state) (out spec.NodeConfigurationStatus, conditions []spec.NodeCondition, wake time.Time) {
	out = s.Status
	out.ObservedGeneration = s.Generation
	out.Nodes = w.count(s)
	valid := spec.NodeCondition{Type: ConditionValid, True: true, Reason: ReasonAccepted}
	rolled := spec.NodeCondition{Type: ConditionRolledOut, Reason: ReasonProgressing}
	switch r := out.Rollout; {
	case s.candidate == nil:
		valid.True, valid.Reason, valid.Message = false, ReasonInvalid, s.invalid
		rolled.Reason, rolled.Message = ReasonInvalid, "what the object said before stays in force"
		if s.stable == nil {
			rolled.Message = "it is in force on no node"
		}
	case s.expired:
		rolled.Reason, rolled.Message = ReasonExpired, "it expired at "+s.Spec.Expires.UTC().Format(time.RFC3339)
	case s.settled():
		out.Rollout = nil
		rolled = w.complete(s, out.Nodes)
	case r == nil || r.Revision != s.candidateName:
		out.Rollout = w.begin(s)
		rolled.Message = out.Rollout.Message
	case r.RolledBack:
		rolled.Reason, rolled.Message = ReasonRolledBack, r.Message
	default:
		next := *r
		out.Rollout = &next
		if w.judge(s, &next) {
			out.Stable, out.Rollout = s.candidate, nil
		}
		rolled.Reason, rolled.Message = ReasonWaiting, next.Message
		switch {
		case next.RolledBack:
			rolled.Reason = ReasonRolledBack
		case s.Spec.Paused:
			rolled.Reason, rolled.Message = ReasonPaused, "spec.paused is true: no further node gets the change; "+next.Message
		}
		if next.SettledAt != nil {
			wake = next.SettledAt.Add(s.rollout.Pause.D())
		}
		if !wake.After(w.now) {
			wake = time.Time{}
		}
	}
	return out, []spec.NodeCondition{valid, rolled}, wake
}

// begin is the status of a rollout that begins: its first step.
func (w *world) begin(s *state) *spec.RolloutStatus {
	return &spec.RolloutStatus{
		Revision: s.candidateName, Percent: s.rollout.Steps[0], Before: w.figures(s.targeted, nil),
		Message: fmt.Sprintf("step 1 of %d, %d %% of %d nodes", len(s.rollout.Steps), s.rollout.Steps[0], len(s.targeted)),
	}
}

// count counts an object's nodes.
func (w *world) count(s *state) (out spec.ConfigurationNodes) {
	out.Targeted = len(s.targeted)
	for _, n := range s.targeted {
		if s.has(n) {
			out.Told++
			if s.applied(n) {
				out.Applied++
			}
		}
	}
	return out
}

// complete is the condition of an object that is in force on all of its nodes, or about to be.
func (w *world) complete(s *state, c spec.ConfigurationNodes) spec.NodeCondition {
	out := spec.NodeCondition{Type: ConditionRolledOut, True: true, Reason: ReasonComplete, Message: fmt.Sprintf("%d of %d nodes have applied it", c.Applied, c.Targeted)}
	for _, n := range s.targeted {
		if w.ready(n) && !s.applied(n) {
			out.True, out.Reason = false, ReasonProgressing
		}
	}
	return out
}

// applied reports whether a node's agent runs with the candidate's parameters.
func (s *state) applied(n *Node) bool {
	a := n.Report.Applied
	return s.has(n) && a != nil && a.Name == s.Name && a.Hash == n.Wanted.Hash && a.InForce == a.Hash && a.Error == ""
}

// refused returns the error of a node that has refused the candidate.
func (s *state) refused(n *Node) string {
	if a := n.Report.Applied; s.has(n) && a != nil && a.Name == s.Name && a.Hash == n.Wanted.Hash {
		return a.Error
	}
	return ""
}

// named lists the first few nodes.
func named(nodes []*Node) string {
	const most = 3
	names := make([]string, 0, most)
	for _, n := range nodes[:min(most, len(nodes))] {
		names = append(names, n.Name)
	}
	if len(nodes) > most {
		names = append(names, fmt.Sprintf("%d more", len(nodes)-most))
	}
	return strings.Join(names, ", ")
}

// judge decides what becomes of a rollout: it stays where it is with a message, goes to its next step, or is taken back. It returns whether all nodes have the change.
func (w *world) judge(s *state, r *spec.RolloutStatus) (done bool) {
	step := max(0, min(r.Step, len(s.rollout.Steps)-1)) // the steps may have been edited
	at := fmt.Sprintf("step %d of %d, %d %% of %d nodes", step+1, len(s.rollout.Steps), r.Percent, len(s.targeted))
	if back := w.faults(s, r); back != "" {
		*r = spec.RolloutStatus{Revision: r.Revision, Step: r.Step, Percent: r.Percent, Before: r.Before, RolledBack: true, Message: "taken back at " + at + ": " + back}
		return false
	}
	if wait := w.waits(s, r); wait != "" {
		r.SettledAt, r.Message = nil, at+": "+wait
		return false
	}
	if r.SettledAt == nil {
		r.SettledAt = new(w.now)
	}
	if over := r.SettledAt.Add(s.rollout.Pause.D()); w.now.Before(over) || s.Spec.Paused {
		r.Message = at + ": no worse than the others; the next step is not before " + over.UTC().Format(time.RFC3339)
		return false
	}
	if step == len(s.rollout.Steps)-1 {
		return true
	}
	r.Step, r.SettledAt = step+1, nil
	r.Percent = s.rollout.Steps[r.Step]
	r.Message = fmt.Sprintf("step %d of %d, %d %% of %d nodes", r.Step+1, len(s.rollout.Steps), r.Percent, len(s.targeted))
	return false
}

// divide divides an object's nodes into those that have the candidate and those that have not. Where none is left, the others are all other nodes.
func (w *world) divide(s *state) (changed, others []*Node) {
	for _, n := range s.targeted {
		if s.has(n) {
			changed = append(changed, n)
		} else {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		targeted := make(map[*Node]bool, len(s.targeted))
		for _, n := range s.targeted {
			targeted[n] = true
		}
		for i := range w.view.Nodes {
			if n := &w.view.Nodes[i]; !targeted[n] {
				others = append(others, n)
			}
		}
	}
	return changed, others
}

// waits says what a step waits for; empty: nothing.
func (w *world) waits(s *state, r *spec.RolloutStatus) string {
	var untold, unanswered, unknown []*Node
	for _, n := range s.targeted {
		switch {
		case s.admitted[n.Name] && !s.has(n):
			untold = append(untold, n)
		case !s.has(n) || !w.ready(n): // an agent that is not ready is counted as such
		case !s.applied(n):
			unanswered = append(unanswered, n)
		case !s.rollout.Gate.Disabled && !n.Report.Applied.Idle && !settled(&n.Report):
			unknown = append(unknown, n)
		}
	}
	changed, others := w.divide(s)
	switch {
	case len(untold) > 0:
		return fmt.Sprintf("nodes still to be told: %d", len(untold))
	case len(changed) == 0: // it is paused, or others are in force on all nodes that it targets; what no node has tried is not known to be good
		return "no node has the change yet"
	case len(unanswered) > 0:
		return fmt.Sprintf("nodes that have not answered: %d (%s)", len(unanswered), named(unanswered))
	case len(unknown) > 0:
		return fmt.Sprintf("nodes of which it is not known how they fare since the change: %d (%s)", len(unknown), named(unknown))
	case s.rollout.Gate.Disabled:
		return ""
	}
	have := w.figures(changed, s)
	if have.Unready == have.Nodes {
		return fmt.Sprintf("no agent of the %d nodes that have the change is ready", have.Nodes)
	}
	if others := w.figures(others, nil); have.Known > 0 && others.Known == 0 && r.Before.Known == 0 {
		return "there is nothing to compare with: of no other node, and of none before the change, it is known how it fares; with spec.rollout.gate.disabled nothing is compared"
	}
	return ""
}

// settled reports whether what an agent says of its node's health is of the time since it applied what it has now, all of it.
func settled(r *Report) bool {
	if r.Health == nil || r.Applied == nil {
		return false
	}
	return !r.ObservedAt.Before(r.Applied.Since.Add(time.Duration(r.Health.WindowSeconds) * time.Second))
}

// figures sums up how nodes fare; of an object's changed nodes only what is of the time since the change counts as known.
func (w *world) figures(nodes []*Node, changed *state) (out spec.ConfigurationFigures) {
	for _, n := range nodes {
		out.Nodes++
		switch {
		case !w.ready(n):
			out.Unready++
		case n.Report.Health == nil, changed != nil && (!changed.applied(n) || !settled(&n.Report)):
		default:
			out.Known++
			out.RunDelay += n.Report.Health.RunDelay
			out.Evictions += n.Report.Health.Evictions
		}
	}
	if out.Known > 0 {
		out.RunDelay /= int64(out.Known)
	}
	return out
}

// faults says why a change must be taken back, with the figures; empty: nothing speaks against it yet.
func (w *world) faults(s *state, r *spec.RolloutStatus) string {
	changed, rest := w.divide(s)
	var refusals []*Node
	for _, n := range changed {
		if s.refused(n) != "" {
			refusals = append(refusals, n)
		}
	}
	if len(refusals) > 0 {
		return fmt.Sprintf("%d of %d nodes refuse it (%s): %s", len(refusals), len(changed), named(refusals), s.refused(refusals[0]))
	}
	if s.rollout.Gate.Disabled || len(changed) == 0 {
		return ""
	}
	gate, have, others := s.rollout.Gate, w.figures(changed, s), w.figures(rest, nil)
	const all = 100
	limit := max(share(others.Unready, others.Nodes), share(r.Before.Unready, r.Before.Nodes)) + float64(*gate.UnreadyPercent)
	if got := share(have.Unready, have.Nodes); got > limit {
		return fmt.Sprintf("%d of %d agents with the change are not ready, %d of %d others, %d of %d before; %.4g %% are allowed",
			have.Unready, have.Nodes, others.Unready, others.Nodes, r.Before.Unready, r.Before.Nodes, limit)
	}
	if have.Known == 0 || others.Known == 0 && r.Before.Known == 0 {
		return "" // waits says that
	}
	delay := max(known(others, others.RunDelay), known(r.Before, r.Before.RunDelay))
	if most := delay + delay*int64(*gate.RunDelayPercent)/all + int64(*gate.RunDelaySlack); have.RunDelay > most {
		return fmt.Sprintf("run delay %s on %d nodes with the change, %s on %d others, %s before; %s is allowed",
			milli(have.RunDelay), have.Known, milli(others.RunDelay), others.Known, milli(r.Before.RunDelay), milli(most))
	}
	before := max(share(int(others.Evictions), others.Known), share(int(r.Before.Evictions), r.Before.Known))
	if got := share(int(have.Evictions), have.Known); got > before+float64(*gate.EvictionsPerHundred) {
		return fmt.Sprintf("%d evictions on %d nodes with the change, %d on %d others, %d on %d before; %.4g per hundred nodes are allowed",
			have.Evictions, have.Known, others.Evictions, others.Known, r.Before.Evictions, r.Before.Known, before+float64(*gate.EvictionsPerHundred))
	}
	return ""
}

func known(f spec.ConfigurationFigures, value int64) int64 {
	if f.Known == 0 {
		return 0
	}
	return value
}

// share is a part in percent; of nothing it is 0.
func share(part, of int) float64 {
	const all = 100
	if of == 0 {
		return 0
	}
	return float64(part) * all / float64(of)
}

// milli is an amount in thousandths.
func milli(v int64) string {
	const thousand = 1000
	return fmt.Sprintf("%.3f", float64(v)/thousand)
}
