package soak

import (
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

func set(t *testing.T, text string) topology.CPUSet {
	t.Helper()
	out, err := topology.ParseCPUSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sound is a node where all is well: own has 6-7, ads and best the pool 1-2,5, batch is lent 3-4. ads has a card.
func sound(t *testing.T) *Reading {
	t.Helper()
	return &Reading{
		Online: set(t, "0-7"), Reserved: set(t, "0"), NUMA: []topology.CPUSet{set(t, "0-3"), set(t, "4-7")}, Floor: 1,
		Pods: []Pod{
			{Name: "own", UID: "o", Level: Dedicated, Wanted: true, Exists: true, Running: true, MilliCPU: 2000, Known: 2000, Promised: []int{1}},
			{Name: "ads", UID: "a", Level: Shared, Wanted: true, Exists: true, Running: true, MilliCPU: 2500, Known: 2500, Cards: 1},
			{Name: "best", UID: "b", Level: BestEffort, Wanted: true, Exists: true, Running: true},
			{Name: "batch", UID: "r", Level: Reclaimed, Wanted: true, Exists: true, Running: true},
		},
		Containers: []Container{
			{UID: "o", ID: "o1", CPUs: set(t, "6-7")}, {UID: "a", ID: "a1", CPUs: set(t, "1-2,5")}, {UID: "b", ID: "b1", CPUs: set(t, "1-2,5")},
			{UID: "r", ID: "r1", CPUs: set(t, "3-4")},
		},
		Agent: Party{For: time.Hour}, Watchdog: Party{For: time.Hour}, Turn: Agent,
		Allocations: []Allocation{{UID: "o", CPUs: set(t, "6-7")}}, Cards: 1,
	}
}

func TestSoundNode(t *testing.T) {
	if wrong := Judge(sound(t)); len(wrong) > 0 {
		t.Error(wrong)
	}
	gone := sound(t)
	gone.Agent.Away, gone.Turn = true, Watchdog
	if wrong := Judge(gone); len(wrong) > 0 {
		t.Errorf("at the floor while the agent is away: %v", wrong)
	}
}

// lend leaves the online pods less than they request.
func lend(t *testing.T, r *Reading) {
	t.Helper()
	r.Containers[1].CPUs, r.Containers[2].CPUs, r.Containers[3].CPUs = set(t, "1"), set(t, "1"), set(t, "2-5")
}

// A node with one thing wrong is judged so, and for that thing.
func TestJudgeFinds(t *testing.T) {
	type breaking = func(*Reading)
	away := func(r *Reading) { r.Agent, r.Turn = Party{Away: true, For: time.Minute}, Watchdog }
	for name, c := range map[string]struct {
		breaks breaking
		want   string
	}{
		"a shared pod on a dedicated one's CPU":     {func(r *Reading) { r.Containers[1].CPUs = set(t, "1-2,5-6") }, "CPU twice: 6 is own's own, and ads"},
		"a BestEffort one there":                    {func(r *Reading) { r.Containers[2].CPUs = set(t, "0-7") }, "CPU twice: 6-7 is own's own, and best"},
		"a reclaimed one there":                     {func(r *Reading) { r.Containers[3].CPUs = set(t, "3,7") }, "CPU twice: 7 is own's own, and batch"},
		"a container of nobody there":               {func(r *Reading) { r.Containers = append(r.Containers, Container{UID: "x", CPUs: set(t, "7")}) }, "and pod x runs"},
		"two dedicated ones":                        {func(r *Reading) { r.Pods[1].Level, r.Containers[1].CPUs = Dedicated, set(t, "5-6") }, "CPU twice: 6 is own's own, and ads"},
		"a dedicated one on the reserved CPU":       {func(r *Reading) { r.Containers[0].CPUs = set(t, "0,7") }, "0, which is reserved"},
		"a known one there while the agent is away": {func(r *Reading) { away(r); r.Containers[1].CPUs = set(t, "1-2,5-6") }, "CPU twice: 6 is own's own"},
		"reported twice": {func(r *Reading) {
			r.Allocations = append(r.Allocations, Allocation{UID: "a", CPUs: set(t, "5-6")})
		}, "6 is reported as held by own and by ads"},
		"held by a pod that is gone": {func(r *Reading) { r.Pods, r.Containers = r.Pods[1:], r.Containers[1:] }, "CPU for nobody: 6-7 is reported as held by pod o"},
		"a pod has gone":             {func(r *Reading) { r.Pods[1].Exists = false }, "in silence: ads is gone"},
		"a pod has gone, and something else is said": {func(r *Reading) {
			r.Pods[1].Exists, r.Pods[1].Events = false, []string{"Scheduled", spec.ReasonPromiseMoved}
		}, "in silence: ads is gone"},
		"a pod does not run":                                {func(r *Reading) { r.Pods[1].Running = false }, "in silence: ads does not run"},
		"a dedicated pod does not run":                      {func(r *Reading) { r.Pods[0].Running = false }, "in silence: own does not run"},
		"a shared pod does not run while the agent is away": {func(r *Reading) { away(r); r.Pods[1].Running = false }, "in silence: ads does not run"},
		"a pod that runs has no process":                    {func(r *Reading) { r.Containers = append(r.Containers[:1:1], r.Containers[2:]...) }, "in silence: ads is said to run"},
		"too few CPUs": {func(r *Reading) {
			r.Containers[0].CPUs, r.Allocations[0].CPUs = set(t, "6"), set(t, "6")
		}, "promise: own requests 2000m, and runs on 6"},
		"too many CPUs": {func(r *Reading) {
			r.Pods[0].MilliCPU = 1000
		}, "promise: own requests 1000m"},
		"too few while the agent is away": {func(r *Reading) { away(r); r.Containers[0].CPUs = set(t, "6") }, "promise: own requests 2000m"},
		"another NUMA node":               {func(r *Reading) { r.Pods[0].Promised = []int{0} }, "promised 0-3, runs on 6-7, and nothing says"},
		"reported elsewhere":              {func(r *Reading) { r.Allocations[0].CPUs = set(t, "5,7") }, "reported to hold 5,7, and runs on 6-7"},
		"not reported":                    {func(r *Reading) { r.Allocations = nil }, "promise: own is reported to hold"},
		"a loan outlives the agent": {func(r *Reading) {
			away(r)
			r.Containers[3].CPUs = set(t, "3-5")
			r.Containers[1].CPUs = set(t, "1-2")
			r.Containers[2].CPUs = set(t, "1-2")
		}, "reclaimed pods keep 4-5 of NUMA node 1"},
		"nobody stands in":                            {func(r *Reading) { away(r); r.Turn = Agent }, `it is the turn of "agent"`},
		"the watchdog goes on":                        {func(r *Reading) { r.Turn = Watchdog }, `absent owner: the agent is there, and it is the turn of "watchdog"`},
		"a pool below its requests":                   {func(r *Reading) { r.Pods[1].MilliCPU = 3001 }, "requests: ads best request 3001m, and have 1-2,5"},
		"a loan of what online pods request and want": {func(r *Reading) { r.Busy = true; lend(t, r) }, "requests: ads best request 2500m, and have 1,"},
		"a loan of it that outlives the agent":        {func(r *Reading) { away(r); lend(t, r) }, "requests: ads best request 2500m, and have 1,"},
		"a plugin that was killed and does not serve": {func(r *Reading) { r.CardsSay = "no plugin serves it" }, "the plugin does not serve: no plugin serves it"},
		"a card that a pod runs without":              {func(r *Reading) { r.Cards = 0 }, "0 cards are held; pods that run asked for 1"},
		"a card that is held for nobody":              {func(r *Reading) { r.Cards = 2 }, "2 cards are held; pods that run asked for 1"},
		"below them while the agent is away": {func(r *Reading) {
			away(r)
			r.Containers[1].CPUs, r.Containers[2].CPUs = set(t, "1"), set(t, "1")
		}, "requests: ads best request 2500m, and have 1,"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sound(t)
			c.breaks(r)
			if wrong := strings.Join(Judge(r), "\n"); !strings.Contains(wrong, c.want) {
				t.Errorf("judged %q, want %q", wrong, c.want)
			}
		})
	}
}

// What cannot be otherwise, or is told of, is not wrong.
func TestJudgeAllows(t *testing.T) {
	away := func(r *Reading) { r.Agent, r.Turn = Party{Away: true, For: time.Minute}, Watchdog }
	for name, allow := range map[string]func(*Reading){
		"a pod that starts while the agent is away runs everywhere": func(r *Reading) {
			away(r)
			r.Containers[2].CPUs, r.Containers[2].New = set(t, "0-7"), true
		},
		"a card of a pod that does not run any more":            func(r *Reading) { r.Pods[1].Running, r.Pods[1].Says = false, "ContainerCreating" },
		"a card of a pod that has not got it yet":               func(r *Reading) { r.Cards, r.Pods[1].Running, r.Pods[1].Says = 0, false, "PluginFailed" },
		"a loan of what online pods request and do not use":     func(r *Reading) { lend(t, r) },
		"a loan of it while the agent is away for a short time": func(r *Reading) { r.Agent = Party{Away: true, For: 29 * time.Second}; lend(t, r) },
		"a busy service while the agent is away for a short time": func(r *Reading) {
			r.Agent, r.Busy = Party{Away: true, For: 29 * time.Second}, true
			lend(t, r)
		},
		"a loan for half a minute": func(r *Reading) {
			r.Agent = Party{Away: true, For: 29 * time.Second}
			r.Containers[3].CPUs = set(t, "2-5")
			r.Containers[1].CPUs, r.Containers[2].CPUs = set(t, "1,2,5"), set(t, "1,2,5")
		},
		"a loan while the watchdog is away too": func(r *Reading) {
			r.Agent, r.Watchdog = Party{Away: true, For: time.Minute}, Party{For: 10 * time.Second}
			r.Containers[3].CPUs = set(t, "2-5")
		},
		"a dedicated pod waits for the agent": func(r *Reading) { away(r); r.Pods[0].Running = false; r.Containers = r.Containers[1:] },
		"the sandbox of a dedicated pod that waits for the agent": func(r *Reading) {
			away(r)
			r.Pods[0].Running, r.Containers[0].CPUs, r.Containers[0].New = false, set(t, "0-7"), true
		},
		"a pod that says why it waits": func(r *Reading) {
			r.Pods[0].Running, r.Pods[0].Says = false, "Unschedulable: no room"
			r.Containers, r.Allocations = r.Containers[1:], nil
		},
		"an evicted pod": func(r *Reading) {
			r.Pods[3].Exists, r.Pods[3].Events = false, []string{spec.ReasonEvictedForPressure}
			r.Containers = r.Containers[:3]
		},
		"a pod that was moved, and it is said":        func(r *Reading) { r.Pods[0].Promised, r.Allocations[0].Moved = []int{0}, true },
		"a resize that the agent has not seen":        func(r *Reading) { away(r); r.Pods[0].MilliCPU = 3000; r.Pods[1].MilliCPU = 5000 },
		"a pool below its requests that has all left": func(r *Reading) { r.Pods[1].MilliCPU, r.Containers[3].CPUs = 5000, set(t, "1-2") },
	} {
		t.Run(name, func(t *testing.T) {
			r := sound(t)
			allow(r)
			if wrong := Judge(r); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}
