package lock

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/colocation"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	root = "../../../.."
	// The guest has CPUs to lend beyond the floor. Its services have one of their own: on the reclaimed pod's they would leave it next to nothing, for the
	// kernel weighs kubepods on each CPU by what runs there of it, and what is there of BestEffort weighs a hundredth of a service.
	guestCPUs, reserved = 4, 1
	// directory is where all rename, in the guest; the pods have it as /shared.
	directory = "/run/storm"
	// perSecond are the requests of the online server; each spends costUS of CPU and renames a file this often.
	perSecond, costUS, renames = 8, 3000, 2
	// progress is which part of the requests the server has to answer while the pool is at its floor, stall the longest time without an answer.
	progress, stall = 0.5, 5 * time.Second
	// tinyFactor is how much later answers are with a tiny quota, at least.
	tinyFactor = 2
	// leastCores is the floor, and lendMost how long it is waited for more to be lent.
	leastCores, lendMost = 1, time.Minute
	// tinyQuota is what some node agents leave offline pods under pressure: 2 ms of every 100.
	tinyQuota, noQuota = "2000 100000", "max 100000"
)

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(m, join.Options{Guest: vm.Options{CPUs: guestCPUs, Nodes: 1, Forward: []int{join.AgentPort}}}))
}

// The arms of the experiment.
var (
	quiet   = colocation.Arm{Name: "quiet", Title: "nobody renames"}
	floor   = colocation.Arm{Name: "hilbert", Title: "Hilbert, to its floor"}
	quota   = colocation.Arm{Name: "quota", Title: "cpu.max 2 ms of 100"}
	noFloor = colocation.Arm{Name: "idle", Title: "idle on shared CPUs"}
)

// TestLock: online progress while the reclaimed pod holds the lock and its pool goes to the floor; and what becomes of it without a floor.
func TestLock(t *testing.T) {
	rounds, window := *colocation.RoundsFlag, *colocation.WindowFlag
	s := newStory(t)
	arms := []struct {
		colocation.Arm
		watch func(time.Duration) colocation.Figures
	}{{floor, s.toTheFloor}, {quiet, s.quiet}, {quota, s.withQuota}, {noFloor, s.withoutFloor}}
	if testing.Short() {
		rounds, window, arms = 1, 6*time.Second, arms[:1] // the one that is judged
	}
	result := &colocation.Result{
		Name: "lock", Title: "An online server while reclaimed tasks hold the lock that it needs: each dot is a round, the bar their median",
		Guest: fmt.Sprintf("%d CPUs, 1 NUMA node, %d MiB, emulated", guestCPUs, vm.NodeMiB),
	}
	for round := range rounds {
		for _, arm := range arms {
			f := arm.watch(window)
			t.Logf("round %d, %s: %.3v", round, arm.Name, f)
			result.Add(arm.Arm, f)
		}
		if *colocation.OutFlag != "" { // whatever comes later, this is kept
			s.Must(result.Write(*colocation.OutFlag))
		}
	}
	t.Logf("\n%s", result.Table())
	s.Remove(s.server, s.rush, s.storm)
	judge(t, result)
}

// judge: progress under Hilbert, in each round. That the lock is contended, and answers much later with a tiny quota, shows over some rounds: in a single one
// the host's other work may be in the way.
func judge(t *testing.T, r *colocation.Result) {
	t.Helper()
	for _, a := range r.Arms {
		if a.Name != floor.Name {
			continue
		}
		for i, f := range a.Rounds {
			if gap := time.Duration(f.Gap) * time.Millisecond; f.Answers < progress*perSecond || gap > stall {
				t.Errorf("round %d: %.1f answers a second while the pool went to its floor, none for %s; want at least %.0f, and none for at most %s",
					i, f.Answers, gap, progress*perSecond, stall)
			}
		}
	}
	if testing.Short() {
		return
	}
	p99 := func(f colocation.Figures) float64 { return f.P99 }
	if with, tiny := r.Of(floor.Name, p99).Median, r.Of(quota.Name, p99).Median; tiny > 0 && tiny < tinyFactor*with {
		t.Errorf("p99 is %.0f ms with a tiny quota, %.0f with the floor: the lock is not contended, and the test shows nothing", tiny, with)
	}
}

// story is a node with an online server, an online pod that can want all CPUs, and a reclaimed pod that keeps the lock busy.
type story struct {
	*colocation.Bed
	server, rush, storm *colocation.Pod
}

func newStory(t *testing.T) *story {
	s := &story{Bed: colocation.NewBed(t, root, reserved)}
	_, err := s.Guest.Shell(t.Context(), fmt.Sprintf("mkdir -p %[1]s && mount -t tmpfs storm %[1]s && chmod 777 %[1]s", directory))
	s.Must(err)
	storm := s.BusyPod("storm", corev1.ResourceRequirements{}, "storm", "8")
	colocation.Reclaimed(storm, colocation.Job{CPU: "3", Memory: "128Mi"})
	pods := s.Run(
		shares(s.online("server", "2", "serve", fmt.Sprint(perSecond), fmt.Sprint(costUS), "2", fmt.Sprint(renames))),
		s.online("rush", "500m", "burn", fmt.Sprint(guestCPUs)),
		shares(storm),
	)
	s.server, s.rush, s.storm = pods[0], pods[1], pods[2]
	s.storm.Job = "storm"
	s.Beside(s.storm)
	s.Freeze(s.rush, true)
	return s
}

// online is an online pod.
func (s *story) online(name, cpu string, args ...string) *corev1.Pod {
	p := s.BusyPod(name, corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}, args...)
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSShared)}
	return p
}

// shares mounts the directory.
func shares(p *corev1.Pod) *corev1.Pod {
	kind := corev1.HostPathDirectory
	p.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: &kind},
	}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	return p
}

// toTheFloor watches the server while the agent takes back what the reclaimed pod had, because the online pods want every CPU.
func (s *story) toTheFloor(window time.Duration) colocation.Figures {
	s.T.Helper()
	s.Freeze(s.rush, true)
	given := s.lend()
	s.drain()
	f := s.Watch(s.server, window, func() {
		begin := time.Now()
		s.Freeze(s.rush, false)
		if given {
			s.Floor(leastCores)
		}
		s.Eventually("the reclaimed pod has the floor", func() error { return s.lent(atFloor) })
		s.T.Logf("the reclaimed pod had its floor %.1f s after online pods wanted all CPUs", time.Since(begin).Seconds())
	})
	s.Must(s.lent(atFloor))
	s.Agent(false)
	return f
}

// lend returns when the reclaimed pod has more than the floor. The agent lends that by itself, unless the server waits for CPUs too much without it, as
// it does where the host has much else to do; then, and in the short form, which has no time for it, the floor is given to be higher, and that is
// reported.
func (s *story) lend() (given bool) {
	s.T.Helper()
	if !testing.Short() {
		s.Floor(leastCores)
		if err := s.Within(lendMost, func() error { return s.lent(aboveFloor) }); err == nil {
			return false
		}
	}
	s.T.Log("the agent lends nothing: the floor is two cores for a while")
	s.Floor(leastCores + 1)
	s.Eventually("the reclaimed pod has more than the floor", func() error { return s.lent(aboveFloor) })
	return true
}

func atFloor(cpus int) bool    { return cpus == leastCores }
func aboveFloor(cpus int) bool { return cpus > leastCores }

// lent is nil where the reclaimed pod has as many CPUs as it should, and none of the server's.
func (s *story) lent(right func(cpus int) bool) error {
	offline, err := s.CPUs(s.storm)
	if err != nil {
		return err
	}
	online, err := s.CPUs(s.server)
	if err != nil {
		return err
	}
	if both := online.Intersection(offline); !right(offline.Len()) || !both.IsEmpty() {
		return fmt.Errorf("the reclaimed pod has %v, the server %v", offline, online)
	}
	return nil
}

// quiet watches the server beside the online rush alone.
func (s *story) quiet(window time.Duration) colocation.Figures {
	s.T.Helper()
	s.Freeze(s.storm, true)
	s.CatchUp(s.server)
	f := s.Watch(s.server, window, nil)
	s.Freeze(s.storm, false)
	return f
}

// drain has the server do what is left over from before, while nobody is in its way.
func (s *story) drain() {
	s.T.Helper()
	s.Freeze(s.storm, true)
	s.CatchUp(s.server)
	s.Freeze(s.storm, false)
}

// withQuota leaves the reclaimed pod on its own CPU, but next to no time there.
func (s *story) withQuota(window time.Duration) colocation.Figures {
	s.T.Helper()
	s.drain()
	s.Set(s.storm.Cgroup+"/cpu.max", tinyQuota)
	f := s.Watch(s.server, window, nil)
	s.Set(s.storm.Cgroup+"/cpu.max", noQuota)
	return f
}

// withoutFloor puts everybody on all CPUs, and the reclaimed pod behind the others: as it is where nothing but cpu.idle and weights hold it down.
func (s *story) withoutFloor(window time.Duration) colocation.Figures {
	s.T.Helper()
	s.drain()
	all := s.All().String()
	before := make(map[string]string)
	for _, p := range []*colocation.Pod{s.server, s.rush, s.storm} {
		for _, dir := range []string{p.Cgroup, p.Container} {
			text, err := s.Guest.Field(s.T.Context(), dir+"/cpuset.cpus")
			s.Must(err)
			before[dir] = text
			s.Set(dir+"/cpuset.cpus", all)
		}
	}
	weight, err := s.Guest.Field(s.T.Context(), s.storm.Cgroup+"/cpu.weight")
	s.Must(err)
	s.Set(s.storm.Cgroup+"/cpu.idle", "1")
	f := s.Watch(s.server, window, nil)
	s.Set(s.storm.Cgroup+"/cpu.idle", "0")
	s.Set(s.storm.Cgroup+"/cpu.weight", weight)
	for dir, text := range before {
		if text != "" {
			s.Set(dir+"/cpuset.cpus", text)
		}
	}
	return f
}
