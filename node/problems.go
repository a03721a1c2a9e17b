package node

import (
	"context"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
)

const (
	// evictPause is the least time between two evictions of one pod, maxEvictions bounds the pods that are remembered for it.
	evictPause   = 30 * time.Second
	maxEvictions = 256
	evictTimeout = 10 * time.Second
	// reopenAfter is how long a zone stays closed whose promise was broken. By then the scheduler has seen what is really held there.
	reopenAfter = time.Minute
)

// problems are what keeps the node from being seen or ruled whole: a message for each reason.
type problems map[string]string

func (t problems) set(reason, message string) { t[reason] = message }
func (t problems) resolve(reason string)      { delete(t, reason) }

// severity orders the reasons: the condition's own reason is the first that holds.
var severity = []string{
	spec.ReasonRuntimeLost, spec.ReasonKnobRefused, spec.ReasonCheckpointLost, spec.ReasonBestEffortWeight, spec.ReasonTooManyZones, spec.ReasonNoNUMAInformation,
	spec.ReasonPressureMissing, spec.ReasonCountersReversed, spec.ReasonClockJumped,
}

// condition is AgentReady.
func (t problems) condition(mode, why string) spec.NodeCondition {
	c := spec.NodeCondition{Type: spec.ConditionAgentReady, Reason: spec.ReasonAgentRunning, True: true}
	if mode == spec.ModeKubelet {
		c.Reason, c.Message = spec.ReasonKubeletRules, why
	}
	if len(t) == 0 {
		return c
	}
	order := sortedKeys(t)
	slices.SortStableFunc(order, func(x, y string) int { return rank(x) - rank(y) })
	var words []string
	for _, reason := range order {
		words = append(words, reason+": "+t[reason])
	}
	c.True, c.Reason, c.Message = false, order[0], strings.Join(words, "; ")
	return c
}

func rank(reason string) int {
	if i := slices.Index(severity, reason); i >= 0 {
		return i
	}
	return len(severity)
}

// notes counts what is to be said of a pod, and says it.
func (a *Agent) notes(p PodName, notes []allocate.Note) {
	for _, n := range notes {
		a.note(p, n)
	}
}

func (a *Agent) note(p PodName, n allocate.Note) {
	a.counts.Notes[n.Reason]++
	a.log.Debug("noted", "pod", p.Namespace+"/"+p.Name, "reason", n.Reason, "message", n.Message)
	if p == (PodName{}) {
		a.log.Warn("about the node", "reason", n.Reason, "message", n.Message)
	}
	if a.ports.Event != nil {
		a.ports.Event(p, n.Reason, n.Message)
	}
}

// maxBestEffortWeight is the cpu.weight of the kubelet's BestEffort cgroup beyond which it does not protect online pods. The kubelet makes it
// 1; the kernel's default is 100.
const maxBestEffortWeight = 10

// watchWeight looks at what protects online pods where they share a CPU with BestEffort ones. It is the kubelet's, and never written here.
func (a *Agent) watchWeight() {
	for _, p := range a.pods {
		above := path.Dir(p.cgroup)
		if !p.bestEffort || above == "." || above == "/" {
			continue
		}
		text, err := a.options.Kernel.Read(above + "/" + enforce.CPUWeight)
		weight, parseErr := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || parseErr != nil {
			return // not known, so nothing to say
		}
		if weight > maxBestEffortWeight {
			a.problems.set(spec.ReasonBestEffortWeight, fmt.Sprintf("%s has cpu.weight %d; the kubelet makes it 1. Online pods are not protected from BestEffort ones on their CPUs", above, weight))
			return
		}
		break // they share it
	}
	a.problems.resolve(spec.ReasonBestEffortWeight)
}

// transientFor is how long something that happened once stays in the condition.
const transientFor = time.Minute

// noteTransient notes something about the node that is over already. While it is in the condition, more of the same is only counted.
func (a *Agent) noteTransient(reason, message string) {
	if _, known := a.transient[reason]; known {
		a.counts.Notes[reason]++
	} else {
		a.note(PodName{}, allocate.Note{Reason: reason, Message: message})
		a.problems.set(reason, message)
	}
	a.transient[reason] = time.Now().Add(transientFor)
}

// expireTransient takes what is over out of the condition.
func (a *Agent) expireTransient(now time.Time) {
	for reason, until := range a.transient {
		if now.After(until) {
			delete(a.transient, reason)
			a.problems.resolve(reason)
		}
	}
}

// evictions are when each pod was last evicted, by UID.
type evictions map[string]time.Time

// refuse says that a pod cannot run here. If it was promised room, the promise is broken: the pod goes, so that it finds a place
// elsewhere, and its zones or devices are closed, because the scheduler takes them for free and they are not.
func (a *Agent) refuse(p PodName, r allocate.Refusal, asked *allocate.Pod) {
	a.counts.Refused[r.Reason]++
	a.note(p, allocate.Note(r))
	if r.Reason != spec.ReasonPromiseBroken {
		return
	}
	now := time.Now()
	if gpus, nics := asked.Devices.GPUs, asked.Devices.NICs; gpus|nics != 0 {
		a.manager.CloseDevices(gpus, nics)
		a.devices.shut(gpus, nics, r.Reason+": "+p.Namespace+"/"+p.Name+": "+r.Message, now)
		a.evict(p, r, now)
		return // it was the devices that could not be had, or may have been
	}
	for set := asked.Promise.Zones(); set != 0; set &= set - 1 {
		zone := bits.TrailingZeros8(set)
		a.manager.CloseZone(zone, allocate.Note{Reason: r.Reason, Message: p.Namespace + "/" + p.Name + ": " + r.Message})
		if !slices.ContainsFunc(a.closedZones, func(c closedZone) bool { return c.zone == zone }) {
			a.closedZones = append(a.closedZones, closedZone{zone, now})
		}
	}
	a.evict(p, r, now)
}

// closedZone is a zone that a broken promise has closed.
type closedZone struct {
	zone int
	at   time.Time
}

// reopen opens zones again whose being closed has served its purpose: what is really held there has been reported since.
func (a *Agent) reopen(now time.Time) {
	a.closedZones = slices.DeleteFunc(a.closedZones, func(c closedZone) bool {
		told := a.ports.Report == nil || a.reporting.written.After(c.at)
		if told && now.Sub(c.at) >= reopenAfter {
			a.manager.OpenZone(c.zone)
			return true
		}
		return false
	})
	a.reopenDevices(now)
}

func (a *Agent) evict(p PodName, r allocate.Refusal, now time.Time) {
	for uid, at := range a.evictions {
		if now.Sub(at) >= evictPause {
			delete(a.evictions, uid)
		}
	}
	if _, lately := a.evictions[p.UID]; lately || a.ports.Evict == nil || len(a.evictions) >= maxEvictions || a.work == nil {
		return
	}
	a.evictions[p.UID] = now
	a.work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, evictTimeout)
		defer cancel()
		err := a.ports.Evict(ctx, p, r.Reason, r.Message)
		a.post(func() {
			if err != nil {
				a.counts.EvictionsFailed++
				a.log.Warn("the eviction failed; the pod is tried again when the kubelet tries it", "pod", p.Namespace+"/"+p.Name, "err", err)
				return
			}
			a.counts.Evictions++
		})
	})
}
