package whatif

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
	"hilbert.dev/hilbert/topology"
)

// settle lets a scheduler do all it can, with an API server that does what it is told.
func settle(s *schedule.Scheduler, pods map[facts.UID]facts.Pod, now time.Time) {
	for {
		decisions := s.Step(now, 100)
		writes := slices.Clone(s.Ready(now))
		for i := range writes {
			w := &writes[i]
			s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written, Node: pods[w.Pod].Node}, now)
			if w.Kind == bind.WriteBinding {
				f := pods[w.Pod]
				f.Node, f.Grant = w.Node, w.Grant
				pods[w.Pod] = f
				s.Apply(facts.PodUpserted{Pod: f}, now)
			}
		}
		if decisions == 0 && len(writes) == 0 {
			return
		}
	}
}

// zones is over how many zones the gang of the town is spread.
func (w *town) zones(pods map[facts.UID]facts.Pod) int {
	seen := make(map[int]bool)
	for _, f := range pods {
		if f.Unit != "" {
			seen[w.zone[number(f.Node)]] = true
		}
	}
	return len(seen)
}

// scatter has the gang's members run anywhere, as if others had been in the way.
func (w *town) scatter(s *schedule.Scheduler, random *rand.Rand, now time.Time, taken []int, pods map[facts.UID]facts.Pod) {
	for i := range w.members {
		at := random.IntN(len(w.gpus))
		for n := 0; n < len(w.gpus) && w.gpus[at]-taken[at] < w.each; n++ {
			at = (at + 1) % len(w.gpus)
		}
		if w.gpus[at]-taken[at] < w.each {
			break
		}
		f := w.pod("t"+strconv.Itoa(i), w.each)
		f.Unit, f.Node, f.Started = "train", "n"+strconv.Itoa(at), now.Add(-24*time.Hour).UnixNano()
		f.Grant = topology.Grant{GPUs: uint16(1<<w.each-1) << taken[at], Milli: topology.FullGPU}
		taken[at] += w.each
		pods[f.UID] = f
		s.Apply(facts.PodUpserted{Pod: f}, now)
	}
}

// A gang that runs in more zones than it needs is said to, with how many it would need, and no other is. When it restarts, all its pods replaced by others, the scheduler has it in as many.
func TestRestartsAreAsAdvised(t *testing.T) {
	t.Parallel()
	advised := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := drawTown(random)
		now := time.Unix(1_000_000_000, 0)
		s := newScheduler(t)
		w.enter(s, now, facts.Packing{Preferred: "zone"})
		pods := make(map[facts.UID]facts.Pod)
		taken := make([]int, len(w.gpus))
		for _, p := range w.pods {
			taken[p.node] += p.gpus
		}
		w.scatter(s, random, now, taken, pods)
		if len(pods) < w.members {
			continue
		}
		d := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
		restore(d.Ledger)
		o := MoveOptions{Params: reschedule.Defaults(), History: new(reschedule.History)}
		o.Params.Only = []string{reschedule.ReasonRestart}
		m, err := NewMoves(t.Context(), d, &o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var held [3]int
		for i, f := range w.free() {
			held[w.zone[i]] += f / w.each
		}
		slices.Sort(held[:])
		least, left := 1, w.members
		for left -= held[3-least]; left > 0; left -= held[3-least] {
			least++
		}
		is := w.zones(pods)
		switch {
		case m.Count() > 0:
			t.Fatalf("seed %d: somebody is moved: %+v", seed, m.Batches)
		case len(m.Restarts) == 0 && least < is:
			t.Fatalf("seed %d: nothing is said of a gang that is in %d zones and needs %d", seed, is, least)
		case len(m.Restarts) == 0:
			continue
		case m.Restarts[0].Now != is || m.Restarts[0].Then != least:
			t.Fatalf("seed %d: %+v, where it is in %d zones and needs %d", seed, m.Restarts, is, least)
		}
		advised++
		for uid := range pods {
			s.Apply(facts.PodRemoved{UID: uid}, now)
		}
		clear(pods)
		for i := range w.members {
			f := w.pod("again"+strconv.Itoa(i), w.each)
			f.Unit = "train"
			pods[f.UID] = f
			s.Apply(facts.PodUpserted{Pod: f}, now)
		}
		if settle(s, pods, now); w.zones(pods) != least {
			t.Fatalf("seed %d: after its restart the gang is in %d zones, and %d were advised", seed, w.zones(pods), least)
		}
	}
	if advised < 50 {
		t.Errorf("%d restarts are advised, too few to say anything", advised)
	}
}
