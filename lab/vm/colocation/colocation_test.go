package colocation

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

// root is the project's, from here.
const root = "../../.."

// The guest has no more processors than the smallest host that is expected.
const guestCPUs = 2

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(m, join.Options{Guest: vm.Options{CPUs: guestCPUs, Nodes: 1, Forward: []int{join.AgentPort}}}))
}

// server is an online pod.
func (b *Bed) server(cpu string, args ...string) *corev1.Pod {
	p := b.BusyPod("online", corev1.ResourceRequirements{}, args...)
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSShared)}
	return p
}

// hogs want more CPU than there is, and one of them the memory's bandwidth. It holds little, for the agent, which is started anew for each round, has
// no headroom of memory to tell in its first minutes, and then leaves a pod no more than 64 MiB.
func hogs() []Job {
	return []Job{
		{Name: "cpu-hog", Args: []string{"count", "2"}, CPU: "400m", Memory: "64Mi"},
		{Name: "memory-hog", Args: []string{"walk", "32"}, CPU: "400m", Memory: "64Mi"},
	}
}

// TestColocation is the experiment: an online server alone, beside offline pods as one has them without Hilbert (Burstable, BestEffort), and beside
// the same pods under Hilbert. Under Hilbert the server has one of the guest's two CPUs and the offline pods have the other, so it is also
// measured alone on one: what is lost to that is the price of whole cores on a machine of two, not of the pods.
func TestColocation(t *testing.T) {
	if testing.Short() {
		t.Skip("half an hour; TestApart is its short form")
	}
	b := NewBed(t, root, 0)
	asleep := []Job{{Name: "asleep", Args: []string{"count", "0"}, CPU: "400m", Memory: "64Mi"}}
	arms := []Arm{
		{Name: "alone", Title: "alone", Shape: BestEffort},
		{Name: "burstable", Title: "offline Burstable", Jobs: hogs(), Shape: Burstable},
		{Name: "besteffort", Title: "offline BestEffort", Jobs: hogs(), Shape: BestEffort},
		{Name: "hilbert", Title: "Hilbert", Agent: true, Jobs: hogs(), Shape: Reclaimed},
		{Name: "halved", Title: "alone, one CPU", Agent: true, Jobs: asleep, Shape: Reclaimed},
	}
	result := &Result{
		Name: "colocation", Title: "An online server beside offline pods, one guest of two CPUs: each dot is a round, the bar their median",
		Guest: fmt.Sprintf("%d CPUs, 1 NUMA node, %d MiB, emulated", guestCPUs, vm.NodeMiB),
	}
	online := b.Run(b.server("1", "serve", "30", "8000", "2"))[0]
	for round := range *RoundsFlag {
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			if a.Name == "halved" && round%3 > 0 {
				continue // it is a control, and costs as much as the others
			}
			b.Enter(a, online)
			f := b.Watch(online, *WindowFlag, nil)
			t.Logf("round %d, %s: %.3v", round, a.Name, f)
			result.Add(a, f)
			if *OutFlag != "" { // whatever comes later, this is kept
				b.Must(result.Write(*OutFlag))
			}
		}
	}
	b.Leave(online)
	b.Agent(false)
	b.Remove(online)
	t.Logf("\n%s", result.Table())
	judge(t, result)
}

// judge holds the medians to what is the kernel's doing and not the host's.
func judge(t *testing.T, r *Result) {
	t.Helper()
	had := func(arm string) float64 { return r.Of(arm, func(f Figures) float64 { return f.Had }).Median }
	delay := func(arm string) float64 { return r.Of(arm, func(f Figures) float64 { return f.RunDelay }).Median }
	if delay("hilbert") >= delay("burstable")/2 {
		t.Errorf("run delay under Hilbert %.0f ms/s, want less than half of that beside Burstable pods, %.0f", delay("hilbert"), delay("burstable"))
	}
	if had("hilbert") < had("burstable") {
		t.Errorf("the server had %.0f %% of the CPU it wanted under Hilbert, %.0f %% beside Burstable pods", 100*had("hilbert"), 100*had("burstable"))
	}
	if work := r.Of("hilbert", func(f Figures) float64 { return f.OfflineCPUs }).Median; work < 0.3 {
		t.Errorf("offline pods used %.2f CPUs under Hilbert: they have one of their own", work)
	}
}

// TestApart is the short form: what is always hungry for CPU and asked for none gets as much of it as each offline pod beside it, and with the agent
// the whole of what the offline pods do not have.
func TestApart(t *testing.T) {
	b := NewBed(t, root, 0)
	online := b.Run(b.server("", "count", "1"))[0]
	const windows, window = 3, 2 * time.Second
	result := &Result{}
	var many []Job
	for i := range 3 {
		many = append(many, Job{Name: fmt.Sprintf("hog-%d", i), Args: []string{"count", "2"}, CPU: "300m", Memory: "64Mi"})
	}
	without := Arm{Name: "besteffort", Title: "BestEffort", Jobs: many, Shape: BestEffort}
	with := Arm{Name: "hilbert", Title: "Hilbert", Agent: true, Jobs: many, Shape: Reclaimed}
	for _, a := range []Arm{without, with} {
		b.Enter(a, online)
		for range windows {
			result.Add(a, b.Watch(online, window, nil))
		}
	}
	t.Logf("\n%s", result.Table())
	had := func(f Figures) float64 { return f.Had }
	if got, bare := result.Of("hilbert", had).Median, result.Of("besteffort", had).Median; got < bare+apartAtLeast {
		t.Errorf("the online pod had %.0f %% of the CPU it wanted with the agent, %.0f %% without; want at least %.0f more", 100*got, 100*bare, 100*apartAtLeast)
	}
	b.Leave(online)
	b.Agent(false)
	b.Remove(online)
}

// apartAtLeast is how much more of the CPU that it wants an online pod gets with the agent.
const apartAtLeast = 0.15
