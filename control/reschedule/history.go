package reschedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds of a History. What is older than KeptFor counts for no cooldown; the API server takes objects of a MiB.
const (
	KeptFor         = 7 * 24 * time.Hour
	maxHistory      = 384 << 10 // bytes of names and times
	historyOverhead = 32        // bytes of an entry beside its name
)

// History is who was moved when: workloads, by what names them in a View, and pods that replaced those that were moved, by namespace/name. A Carrier writes it, Decide reads it, and its JSON outlasts
// a leader. It never takes what it does not know for what has not happened: of moves that ended by KnownSince it may lack some, and whoever is not in it might be one of them.
//
// For example, a leader that finds a damaged record begins with one that is known since now. It moves no workload for a cooldown, and no pod that was made before, until that has been where it is for
// a cooldown.
//
// The zero value is that of a cluster in which nobody was ever moved. A nil History knows nothing at all, which is what a View without one has.
type History struct {
	knownSince time.Time
	workloads  map[string]movedWorkload
	pods       map[string]time.Time // when they came, by namespace/name
	bytes      int
}

// movedWorkload is when a pod of it was moved last. unseen: nobody saw which pod came for one that was moved, so each that was made since then may be it; zero: all were seen.
type movedWorkload struct{ at, unseen time.Time }

// historyRecord is a History as JSON, its times in seconds since the epoch.
type historyRecord struct {
	KnownSince int64 `json:"knownSince,omitempty"`
	// Workloads are when they were moved, and since when their pods may be replacements, or 0.
	Workloads map[string][2]int64 `json:"workloads,omitempty"`
	Pods      map[string]int64    `json:"pods,omitempty"`
}

// UnknownHistory knows nothing of what was before now.
func UnknownHistory(now time.Time) *History { return &History{knownSince: now} }

// ReadHistory reads what Record wrote; an empty text is a cluster in which nobody was moved yet.
func ReadHistory(data []byte) (*History, error) {
	h := new(History)
	if len(data) == 0 {
		return h, nil
	}
	var r historyRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read who was moved before: %w", err)
	}
	h.knownSince = instant(r.KnownSince)
	for name, at := range r.Workloads {
		h.setWorkload(name, movedWorkload{instant(at[0]), instant(at[1])})
	}
	for name, at := range r.Pods {
		h.setPod(name, instant(at))
	}
	h.shrink()
	return h, nil
}

// Record is the History as JSON.
func (h *History) Record() ([]byte, error) {
	r := historyRecord{KnownSince: seconds(h.knownSince), Workloads: make(map[string][2]int64, len(h.workloads)), Pods: make(map[string]int64, len(h.pods))}
	for name, m := range h.workloads {
		r.Workloads[name] = [2]int64{seconds(m.at), seconds(m.unseen)}
	}
	for name, at := range h.pods {
		r.Pods[name] = seconds(at)
	}
	return json.Marshal(r)
}

// seconds is an instant in whole seconds, or the next one: read again, nobody was moved earlier than he was. 0: none.
func seconds(at time.Time) int64 {
	switch {
	case at.IsZero():
		return 0
	case at.Nanosecond() > 0:
		return at.Unix() + 1
	}
	return at.Unix()
}

func instant(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// KnownSince is since when all moves are known; zero: since ever.
func (h *History) KnownSince() time.Time { return h.knownSince }

// Size is about how many bytes its record has.
func (h *History) Size() int { return h.bytes }

// moved notes that a pod of a workload was moved, by a move that ended now and had begun after began. replacement is the pod that came for it, by namespace/name; empty: nobody saw it.
func (h *History) moved(workload, replacement string, began, now time.Time) {
	h.drop(func(at time.Time) bool { return now.Sub(at) > KeptFor })
	m := movedWorkload{at: now, unseen: h.workloads[workload].unseen}
	if replacement != "" {
		h.setPod(replacement, now)
	} else if m.unseen.IsZero() {
		m.unseen = began.Truncate(time.Second) // as the API server tells when pods were made
	}
	h.setWorkload(workload, m)
	h.shrink()
}

// touched notes that no other pod of a workload is to be moved at once, although no single pod was: its evictions were refused for too long, or it is a gang's.
func (h *History) touched(workload string, now time.Time) {
	h.setWorkload(workload, movedWorkload{at: now, unseen: h.workloads[workload].unseen})
	h.shrink()
}

func (h *History) setWorkload(name string, m movedWorkload) {
	if h.workloads == nil {
		h.workloads = make(map[string]movedWorkload)
	}
	if _, there := h.workloads[name]; !there {
		h.bytes += len(name) + historyOverhead
	}
	h.workloads[name] = m
}

func (h *History) setPod(name string, at time.Time) {
	if h.pods == nil {
		h.pods = make(map[string]time.Time)
	}
	if _, there := h.pods[name]; !there {
		h.bytes += len(name) + historyOverhead
	}
	h.pods[name] = at
}

// shrink forgets the oldest where there is too much, until a quarter of the room is free. From the newest that was forgotten on all is known, and no more since ever.
func (h *History) shrink() {
	if h.bytes <= maxHistory {
		return
	}
	times := slices.Collect(maps.Values(h.pods))
	for _, m := range h.workloads {
		times = append(times, m.at)
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, oldest := range times {
		if h.bytes <= maxHistory*3/4 {
			return
		}
		h.drop(func(at time.Time) bool { return !at.After(oldest) })
		if oldest.After(h.knownSince) {
			h.knownSince = oldest
		}
	}
}

// drop forgets what is old.
func (h *History) drop(old func(at time.Time) bool) {
	maps.DeleteFunc(h.workloads, func(name string, m movedWorkload) bool { return old(m.at) && h.frees(name) })
	maps.DeleteFunc(h.pods, func(name string, at time.Time) bool { return old(at) && h.frees(name) })
}

// frees counts an entry no more.
func (h *History) frees(name string) bool {
	h.bytes -= len(name) + historyOverhead
	return true
}

// workload is when a pod of a workload was moved last, or may have been; known is false where none was.
func (h *History) workload(name string, now time.Time) (at time.Time, known bool) {
	if h == nil {
		return now, true
	}
	if m, there := h.workloads[name]; there {
		return m.at, true
	}
	return h.knownSince, !h.knownSince.IsZero()
}

// pod is when a pod came for one that was moved, or may have, and how that is known; empty: it did not.
func (h *History) pod(p *Pod) (at time.Time, why string) {
	if h == nil {
		return p.Created, "it may have been moved when it was made, and nothing is known of moves"
	}
	if at, there := h.pods[p.Namespace+"/"+p.Name]; there {
		return at, "it was moved"
	}
	if since := h.workloads[p.Workload].unseen; !since.IsZero() && !p.Created.Before(since) {
		return p.Created, "it was made after a pod of its workload was moved, and may be that one's replacement"
	}
	if !h.knownSince.IsZero() && !p.Created.After(h.knownSince) {
		return p.Created, "it may have been moved when it was made, and of moves before " + h.knownSince.UTC().Format(time.RFC3339) + " not all are known"
	}
	return time.Time{}, ""
}
