package bursts

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
	// Pods have all CPUs but the reserved ones.
	guestCPUs, reserved = 8, 4
	podCPUs             = guestCPUs - reserved
	// The server asks for half of the pods' CPUs. It uses half a CPU on average, and one and a quarter in its bursts.
	serverCPUs, perSecond, costUS, workers, burstMS = "2", "62", "8000", "2", "4000"
	// A window is a whole number of periods, each of a burst and a rest, so that all arms see as much load.
	period = 4 * time.Second
	// floor is what reclaimed pods have at the least: the half that the server does not ask for.
	floor = 2
	// leastLeft is which part of the CPUs that the server does not use the offline pods are to have.
	leastLeft = 0.5
)

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(m, join.Options{Guest: vm.Options{CPUs: guestCPUs, Nodes: 1, Forward: []int{join.AgentPort}}}))
}

// arm is one that has burners besides. The server of a confined arm has only as many CPUs as it asks for.
type arm struct {
	colocation.Arm
	burners  int
	confined bool
}

// kinds are the offline pods. Each kind wants more CPU than there is.
func kinds() map[string][]colocation.Job {
	job := func(name string, args ...string) colocation.Job {
		return colocation.Job{Name: name, Args: args, CPU: "1", Memory: "64Mi"}
	}
	return map[string][]colocation.Job{
		"threads": {job("many-a", "count", "16"), job("many-b", "count", "16")},
		"wakes":   {job("wakes-a", "wake", "16"), job("wakes-b", "wake", "16")},
		"memory":  {job("walks-a", "walk", "32"), job("walks-b", "walk", "32"), job("reads", "cache", "256", "1"), job("hog", "count", "2")},
	}
}

// arms are the controls, and each kind of offline pods without and with the agent. One control is alone on all CPUs, one on those that the server asks for:
// it tells what it costs to have no more than that from what neighbours cost. A CPU that hogs have under Hilbert has no burner; where they share the
// server's, they keep all of them busy.
func arms() []arm {
	all := []arm{
		{Arm: colocation.Arm{Name: "alone", Title: "alone", Shape: colocation.BestEffort}, burners: podCPUs},
		{Arm: colocation.Arm{Name: "alone-confined", Title: "alone on the CPUs it asks for", Shape: colocation.BestEffort}, burners: podCPUs, confined: true},
	}
	for _, kind := range []string{"threads", "wakes", "memory"} {
		jobs := kinds()[kind]
		all = append(all,
			arm{Arm: colocation.Arm{Name: "besteffort-" + kind, Title: "BestEffort: " + kind, Jobs: jobs, Shape: colocation.BestEffort}, burners: 1},
			arm{Arm: colocation.Arm{Name: "hilbert-" + kind, Title: "Hilbert: " + kind, Agent: true, Jobs: jobs, Shape: colocation.Reclaimed}, burners: podCPUs - floor},
		)
	}
	return all
}

// TestBursts is the experiment.
func TestBursts(t *testing.T) {
	if *colocation.OutFlag == "" {
		t.Skip("it measures, for tens of minutes: make vm-colocation")
	}
	if *colocation.WindowFlag%period != 0 {
		t.Fatalf("-colocation.window=%s is not a whole number of the load's periods of %s", *colocation.WindowFlag, period)
	}
	b := colocation.NewBed(t, root, reserved)
	b.Floor(floor)
	b.Agent(false)
	b.Confine()
	burn := newBurners(b)
	online := b.Run(server(b))[0]
	result := &colocation.Result{
		Name: "bursts", Title: "A server that is busy in bursts beside offline pods, four CPUs: each dot is a round, the bar their median",
		Guest: fmt.Sprintf("%d CPUs, of which pods have %d, 1 NUMA node, %d MiB, emulated", guestCPUs, podCPUs, vm.NodeMiB),
	}
	all := arms()
	for round := range *colocation.RoundsFlag {
		for i := range all {
			a := all[(i+round)%len(all)]
			burn.let(a.burners)
			b.Enter(a.Arm, online)
			if a.confined {
				b.Set(online.Cgroup+"/cpuset.cpus", fmt.Sprintf("%d-%d", reserved, guestCPUs-1-floor))
				b.CatchUp(online)
			}
			f := b.Watch(online, *colocation.WindowFlag, nil)
			t.Logf("round %d, %s: %.3v", round, a.Name, f)
			if a.confined {
				b.Set(online.Cgroup+"/cpuset.cpus", b.All().String())
			}
			result.Add(a.Arm, f)
			if *colocation.OutFlag != "" { // whatever comes later, this is kept
				b.Must(result.Write(*colocation.OutFlag))
			}
		}
	}
	burn.let(0)
	b.Leave(online)
	b.Agent(false)
	b.Remove(online)
	t.Logf("\n%s", result.Table())
	judge(t, result)
}

// judge holds medians to what is the kernel's doing and not the host's: under Hilbert offline pods have their part, and the server waits no more than beside
// BestEffort pods that have many threads.
func judge(t *testing.T, r *colocation.Result) {
	t.Helper()
	delay := func(f colocation.Figures) float64 { return f.RunDelay }
	if hilbert, bare := r.Of("hilbert-threads", delay).Median, r.Of("besteffort-threads", delay).Median; hilbert > bare {
		t.Errorf("beside many threads the server waits %.0f ms/s under Hilbert, and %.0f without", hilbert, bare)
	}
	left := r.Of("hilbert-threads", func(f colocation.Figures) float64 { return f.OfflineCPUs / (podCPUs - f.CPU) }).Median
	if left < leastLeft {
		t.Errorf("offline pods had %.0f %% of the CPUs that the server left, want %.0f", 100*left, 100*leastLeft)
	}
}

func server(b *colocation.Bed) *corev1.Pod {
	p := b.BusyPod("online", corev1.ResourceRequirements{}, "serve", perSecond, costUS, workers, "0", burstMS)
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(serverCPUs)}
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSShared)}
	return p
}

// burners keep reserved CPUs busy, one each. They are no service's, and no pod's.
type burners struct{ b *colocation.Bed }

func burnerCgroup(i int) string { return fmt.Sprintf("/sys/fs/cgroup/burner%d", i) }

func newBurners(b *colocation.Bed) burners {
	b.T.Helper()
	const script = `mkdir -p %[1]s && echo %[2]d >%[1]s/cpuset.cpus && echo 1 >%[1]s/cgroup.freeze &&
		sh -c 'echo $$ >%[1]s/cgroup.procs; exec /sbin/hilbert-vm-busy burn 1' >/dev/null 2>&1 </dev/null &`
	for i := range podCPUs {
		_, err := b.Guest.Shell(b.T.Context(), fmt.Sprintf(script, burnerCgroup(i), reserved-1-i))
		b.Must(err)
	}
	return burners{b}
}

// let has some of them burn.
func (n burners) let(burn int) {
	n.b.T.Helper()
	for i := range podCPUs {
		frozen := "1"
		if i < burn {
			frozen = "0"
		}
		n.b.Set(burnerCgroup(i)+"/cgroup.freeze", frozen)
	}
}
