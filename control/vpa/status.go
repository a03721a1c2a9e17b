package vpa

import (
	"math"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// publish puts what is recommended for a container into the status.
func (r *round) publish(container string, w *recommend.Workload) {
	target, lower, upper, uncapped := w.Recommendation.Target, w.Recommendation.Lower, w.Recommendation.Upper, w.Recommendation.Uncapped
	if update := r.object.UpdateMode; update != UpdateOff && update != UpdateInitial {
		has, known := r.least(container)
		if !known {
			return // without pods it is not known what the ledger has for them
		}
		for _, a := range []*recommend.Amounts{&target, &lower, &upper} {
			*a = recommend.Amounts{CPU: min(a.CPU, has.CPU), Memory: min(a.Memory, has.Memory)}
		}
	}
	lower = recommend.Amounts{CPU: min(lower.CPU, target.CPU), Memory: min(lower.Memory, target.Memory)}
	upper = recommend.Amounts{CPU: max(upper.CPU, target.CPU), Memory: max(upper.Memory, target.Memory)}
	s := ContainerStatus{Container: container}
	if w.Policy == nil || !w.Policy.KeepCPU {
		s.CPU = Bounds{Known: true, Target: milli(target.CPU), Lower: milli(lower.CPU), Upper: milli(upper.CPU), Uncapped: milli(uncapped.CPU)}
	}
	if w.Policy == nil || !w.Policy.KeepMemory {
		s.Memory = Bounds{Known: true, Target: bytes(target.Memory), Lower: bytes(lower.Memory), Upper: bytes(upper.Memory), Uncapped: bytes(uncapped.Memory)}
	}
	if s.CPU.Known || s.Memory.Known {
		r.status.Containers = append(r.status.Containers, s)
	}
}

// hold publishes what package recommend gives new pods, where pods are made anew: after a change was taken back, that is what they had.
func (r *round) hold(container string, to recommend.Amounts) {
	if r.mode != recommend.ModeRecreate {
		return
	}
	for i := range r.status.Containers {
		if s := &r.status.Containers[i]; s.Container == container {
			s.CPU.hold(milli(to.CPU))
			s.Memory.hold(bytes(to.Memory))
		}
	}
}

func (b *Bounds) hold(target int64) {
	if b.Known {
		b.Target, b.Lower, b.Upper = target, min(b.Lower, target), max(b.Upper, target)
	}
}

// least is the least that a container has in any pod: that much the ledger has for each of them.
func (r *round) least(container string) (has recommend.Amounts, known bool) {
	for i := range r.object.Pods {
		c := r.object.Pods[i].container(container)
		if c == nil || c.Requests.CPU == 0 || c.Requests.Memory == 0 {
			continue
		}
		if !known {
			has, known = c.Requests, true
		}
		has = recommend.Amounts{CPU: min(has.CPU, c.Requests.CPU), Memory: min(has.Memory, c.Requests.Memory)}
	}
	return has, known
}

func milli(cores float64) int64  { return int64(min(math.Round(1000*cores), 1e15)) }
func bytes(amount float64) int64 { return int64(min(math.Round(amount), 1e18)) }
func (r *round) provided(said []string, least, confident float64) {
	if len(r.status.Containers) == 0 {
		reason := ""
		if len(r.object.Pods) == 0 {
			reason = NoPodsMatched
			said = []string{"No pods match this VPA object"}
		}
		r.set(RecommendationProvided, false, reason, brief(said))
		return
	}
	r.set(RecommendationProvided, true, "", brief(said))
	if least < confident {
		r.set(LowConfidence, true, "LittleHistory", "use is known for too short a time, or is not known of late")
	}
}

// applied says how far pods have what is recommended, and what the rest waits for.
func (r *round) applied() {
	switch {
	case r.object.Problem != "":
	case r.refused != "":
		r.set(Applied, false, "ModeRefused", r.refused)
	case !r.changing():
		r.set(Applied, false, "Mode"+string(r.mode), "mode "+string(r.mode)+" changes no running pod")
	case r.reverting() != "":
		r.set(Applied, false, "TakenBack", brief(append([]string{r.reverting()}, r.waits...)))
	case len(r.waits) > 0:
		r.set(Applied, false, "Waiting", brief(r.waits))
	case r.changes > 0:
		r.set(Applied, false, "Changing", "pods are being changed")
	case len(r.status.Containers) == 0:
		r.set(Applied, false, "NothingKnown", "nothing is recommended")
	default:
		r.set(Applied, true, "UpToDate", "all pods that may be changed have what is recommended")
	}
}

// reverting says why a rollout is or was last taken back.
func (r *round) reverting() string {
	for _, name := range r.containers() {
		k := r.state.containers[name]
		if k.rollout.Reverting != "" {
			return "taken back: " + k.rollout.Reverting
		}
	}
	return ""
}

func (r *round) set(kind string, is bool, reason, message string) {
	r.status.Conditions = append(r.status.Conditions, Condition{Type: kind, True: is, Reason: reason, Message: message})
}

// Bounds of a condition's message.
const (
	maxSaid    = 8
	maxMessage = 1000
)

// brief joins what is said, without what is said twice.
func brief(said []string) string {
	var once []string
	for _, s := range said {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	if n := len(once) - maxSaid; n > 0 {
		once = append(once[:maxSaid:maxSaid], "and so on")
	}
	text := strings.Join(once, "\n")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// closeEnough is the share by which a target has to change to be worth a write, closeBounds that of a bound: bounds close in on the target with each sample, and for the first hours by
// more than a hundredth of themselves each minute. A thousand new objects would be written each minute for that.
const (
	closeEnough = 0.01
	closeBounds = 0.1
)

// worthWriting reports whether the status says more than the figures of what is there. That alone is written after a while.
func (r *round) worthWriting(now time.Time, after time.Duration) bool {
	was, is := &r.object.Status, &r.status
	// Definitions of before 1.6 have no observedGeneration.
	if was.Generation != 0 && was.Generation != is.Generation || len(was.Containers) != len(is.Containers) || len(was.Conditions) != len(is.Conditions) {
		return true
	}
	same := true
	for i := range is.Containers {
		a, b := &was.Containers[i], &is.Containers[i]
		if a.Container != b.Container || !a.CPU.near(&b.CPU) || !a.Memory.near(&b.Memory) {
			return true
		}
		same = same && *a == *b
	}
	for i := range is.Conditions {
		a, b := is.Conditions[i], was.condition(is.Conditions[i].Type)
		if b == nil || a.True != b.True || a.Reason != b.Reason || withoutFigures(a.Message) != withoutFigures(b.Message) {
			return true
		}
		same = same && a.Message == b.Message
	}
	return !same && now.Sub(r.state.written) >= after
}

func (s *Status) condition(kind string) *Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func (b *Bounds) near(o *Bounds) bool {
	if b.Known != o.Known {
		return false
	}
	for _, x := range []struct {
		was, is int64
		by      float64
	}{{b.Target, o.Target, closeEnough}, {b.Lower, o.Lower, closeBounds}, {b.Upper, o.Upper, closeBounds}, {b.Uncapped, o.Uncapped, closeEnough}} {
		if math.Abs(float64(x.was-x.is)) > x.by*float64(max(x.was, x.is)) {
			return false
		}
	}
	return true
}

// withoutFigures is a text without its figures, which change all the time.
func withoutFigures(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}
