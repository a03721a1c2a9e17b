package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/topology"
)

// wants has a pod ask for devices.
func wants(amounts map[corev1.ResourceName]string) trait {
	return func(p *corev1.Pod) {
		limits := p.Spec.Containers[0].Resources.Limits
		for name, amount := range amounts {
			limits[name] = resource.MustParse(amount)
			p.Spec.Containers[0].Resources.Requests[name] = limits[name]
		}
	}
}

// greedy is an image that asks for all GPUs, as many do.
func greedy(p *corev1.Pod) {
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"})
}

// computing is a dedicated pod with a GPU.
func (r *rig) computing(name, cpu, near string, amounts map[corev1.ResourceName]string) *corev1.Pod {
	p := r.dedicated(name, cpu, "64Mi", spec.NUMABound, "sleep")
	for _, t := range []trait{annotated(spec.AnnotationNear, near), wants(amounts), greedy} {
		t(p)
	}
	return p
}

// scriptFile has what is asked in a container.
const scriptFile = "/tmp/inside"

// inside is what a container has of stand-ins.
type inside struct {
	visible string            // NVIDIA_VISIBLE_DEVICES
	env     string            // what the specification of CDI gives: the address of a stand-in
	mounted string            // the same, in a file
	library bool              // the driver's is there
	files   map[string]string // its device files, and their numbers
	opens   map[string]bool   // which of the guest's stand-ins it may open, by address, if it makes a file of its own
}

// inside asks the kernel, by a process that is in the container's cgroup and sees its files.
func (r *rig) inside(p *corev1.Pod, gpus [vm.Nodes]standIn) inside {
	r.t.Helper()
	script := `busybox tr '\0' '\n' </proc/1/environ | grep -e ^NVIDIA_ -e ^STAND_IN
		if [ -e ` + standInFile + ` ]; then echo mounted=$(cat ` + standInFile + `); fi
		if [ -e ` + libcuda + ` ]; then echo library=; fi
		for file in /dev/nvidia* /dev/vd*; do if [ -e $file ]; then echo file=$file $(busybox stat -c '%t %T' $file); fi; done
		`
	for i := range gpus {
		script += fmt.Sprintf("busybox mknod /tmp/%[1]d b %[2]s || exit 1; if busybox dd if=/tmp/%[1]d of=/dev/null bs=512 count=1; then echo opens=%[3]s; fi; busybox rm /tmp/%[1]d\n",
			i, strings.Replace(gpus[i].disk, ":", " ", 1), gpus[i].address)
	}
	pod := r.sees().pods[string(p.UID)]
	if pod == nil || pod.groups[containerID(p)] == nil || len(pod.groups[containerID(p)].tasks) == 0 {
		r.t.Fatalf("pod %s has no task", p.Name)
	}
	g := pod.groups[containerID(p)]
	if err := r.Guest.WriteString(r.t.Context(), scriptFile, script); err != nil {
		r.t.Fatal(err)
	}
	enter := fmt.Sprintf("exec <%s && echo $$ >%s/cgroup.procs && exec busybox chroot /proc/%d/root /bin/sh", scriptFile, g.dir, g.tasks[0].pid)
	text, err := r.Guest.Shell(r.t.Context(), enter)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, text)
	}
	out := inside{files: make(map[string]string), opens: make(map[string]bool)}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "NVIDIA_VISIBLE_DEVICES":
			out.visible = value
		case "STAND_IN":
			out.env = value
		case "mounted":
			out.mounted = value
		case "library":
			out.library = true
		case "opens":
			out.opens[value] = true
		case "file":
			var name string
			var major, minor int
			if _, err := fmt.Sscanf(value, "%s %x %x", &name, &major, &minor); err != nil {
				r.t.Fatalf("%q: %v", line, err)
			}
			out.files[name] = fmt.Sprintf("%d:%d", major, minor)
		}
	}
	return out
}

// beside fails the test unless a pod's container has one stand-in and nothing of any other, that which it was promised, and CPUs and memory of the
// NUMA node where the kernel has that stand-in.
func (r *rig) beside(p *corev1.Pod, gpus [vm.Nodes]standIn, o *v1alpha1.CustomNodeResource) *standIn {
	r.t.Helper()
	in := r.inside(p, gpus)
	var s *standIn
	for i := range gpus {
		if in.files[gpus[i].file()] == gpus[i].disk && len(in.files) == 1 {
			s = &gpus[i]
		}
	}
	if s == nil {
		r.t.Fatalf("pod %s has the device files %v, want one of a stand-in of %+v", p.Name, in.files, gpus)
	}
	if len(in.opens) != 1 || !in.opens[s.address] {
		r.t.Errorf("pod %s may open %v, want %s", p.Name, in.opens, s.address)
	}
	if in.env != s.address || in.mounted != s.address || !in.library || in.visible != "void" {
		r.t.Errorf("pod %s has %+v, want the environment and the mounts of %s", p.Name, in, s.address)
	}
	promised, err := strconv.Atoi(p.Annotations[spec.AnnotationGPUs])
	if err != nil || promised >= len(o.Status.Devices.GPUs) || o.Status.Devices.GPUs[promised].Address != s.address {
		r.t.Errorf("pod %s has %s, was promised GPU %q", p.Name, s.address, p.Annotations[spec.AnnotationGPUs])
	}
	cpus, mems := r.places(p)
	if near := r.numa(s.node); !cpus.Minus(near).IsEmpty() || mems != topology.CPUs(s.node) {
		r.t.Errorf("pod %s has CPUs %v and memory of %v, and %s, which the kernel has at node %d with CPUs %v", p.Name, cpus, mems, s.address, s.node, near)
	}
	return s
}

// given is what a report says that a pod holds of devices.
func given(o *v1alpha1.CustomNodeResource, p *corev1.Pod) spec.DeviceAllocation {
	if o.Status.Devices != nil {
		for _, a := range o.Status.Devices.Allocations {
			if a.UID == string(p.UID) {
				return a
			}
		}
	}
	return spec.DeviceAllocation{}
}

// confirmed is nil when a report says that a pod holds the devices that it was promised.
func confirmed(o *v1alpha1.CustomNodeResource, p *corev1.Pod) error {
	a := given(o, p)
	if a.GPUs == "" || a.GPUs != p.Annotations[spec.AnnotationGPUs] || a.NICs != p.Annotations[spec.AnnotationNICs] || a.Moved {
		return fmt.Errorf("pod %s is said to have %+v, was promised GPUs %q and cards %q", p.Name, a,
			p.Annotations[spec.AnnotationGPUs], p.Annotations[spec.AnnotationNICs])
	}
	return nil
}

// sameDevices is nil when the GPUs of a report and the cards beside them are the guest's stand-ins, where its kernel has them.
func sameDevices(o *v1alpha1.CustomNodeResource, gpus [vm.Nodes]standIn) error {
	d := o.Status.Devices
	if d == nil || d.Owner != spec.OwnerHilbert || len(d.GPUs) != len(gpus) {
		return fmt.Errorf("reported is %+v, want %d GPUs that are ours", d, len(gpus))
	}
	switches := make(map[int]bool)
	for i := range gpus {
		s := &gpus[i]
		g, card := reportedGPU(o, s), spec.NIC{}
		for _, n := range d.NICs {
			if n.Address == s.card.address {
				card = n
			}
		}
		if g.UUID != s.uuid || g.Model != s.model || g.MemoryMiB != s.mebi || g.Closed != "" {
			return fmt.Errorf("%+v, want %+v", g, s)
		}
		if g.NUMA == nil || *g.NUMA != s.node || card.NUMA == nil || *card.NUMA != s.node {
			return fmt.Errorf("GPU %+v, card %+v, want both at node %d", g, card, s.node)
		}
		if g.Switch == nil || card.Switch == nil || *g.Switch != *card.Switch || switches[*g.Switch] {
			return fmt.Errorf("GPU %+v, card %+v, want both below a switch of their own", g, card)
		}
		switches[*g.Switch] = true
		if card.Name != s.card.link || card.BandwidthMbit != 1000 || card.Closed != "" {
			return fmt.Errorf("%+v, want %s with 1 Gbit/s", card, s.card.link)
		}
	}
	return nil
}

// reportedGPU is what a report has at a stand-in's address.
func reportedGPU(o *v1alpha1.CustomNodeResource, s *standIn) spec.GPU {
	if o.Status.Devices != nil {
		for _, g := range o.Status.Devices.GPUs {
			if g.Address == s.address {
				return g
			}
		}
	}
	return spec.GPU{}
}

// TestDevices: GPUs and cards are reported where the kernel has them; a pod that must have CPUs, GPU and card below one switch has them there, though
// another GPU is free; what it may open is its own GPU and no other; a container without one has none; and a GPU that is held is not given twice.
func TestDevices(t *testing.T) {
	r := newRig(t)
	gpus := r.standIns()
	r.driver(gpus)
	o := r.reported("the stand-ins", func(o *v1alpha1.CustomNodeResource) error { return sameDevices(o, gpus) })
	const kept, broken = `hilbert_agent_device_promises_total{outcome="kept"}`, `hilbert_agent_device_promises_total{outcome="broken"}`
	before := map[string]float64{kept: r.metric(kept), broken: r.metric(broken)}

	// Node 0 has one CPU left then: too few for the first pod, whose GPU must be of node 1.
	r.awaitRunning(r.promisedByHand("filler", "2", "0:2/64Mi"))
	two := r.create(r.computing("two", "2", "switch,required", map[corev1.ResourceName]string{spec.ResourceNvidiaGPU: "1", spec.ResourceNICBandwidth: "600"}))
	one := r.create(r.computing("one", "1", "numa,required", map[corev1.ResourceName]string{spec.ResourceGPUCore: "100"}))
	plain := r.create(r.pod("plain", requests("100m"), greedy))
	two, one, plain = r.awaitRunning(two), r.awaitRunning(one), r.awaitRunning(plain)

	if s := r.beside(two, gpus, o); s.node != 1 {
		t.Errorf("pod two has %+v, want that of node 1, beside which two CPUs are free", s)
	} else if card, _, _ := strings.Cut(two.Annotations[spec.AnnotationNICs], ":"); !r.isCard(o, card, s.card.address) {
		t.Errorf("pod two was promised the card %q, want %s, which is below the switch of %s", two.Annotations[spec.AnnotationNICs], s.card.address, s.address)
	}
	if s := r.beside(one, gpus, o); s.node != 0 {
		t.Errorf("pod one has %+v, want the other", s)
	}
	if in := r.inside(plain, gpus); in.visible != "void" || len(in.files)+len(in.opens) > 0 || in.mounted != "" || in.env != "" {
		t.Errorf("pod plain, which was granted nothing, has %+v", in)
	}
	r.reported("the promises are confirmed", func(o *v1alpha1.CustomNodeResource) error {
		return errors.Join(confirmed(o, two), confirmed(o, one))
	})
	if got := r.metric(kept) - before[kept]; got != 2 {
		t.Errorf("%g promises were counted as kept, want 2", got)
	}

	lives := r.settled([]*corev1.Pod{two, one})
	waiting := r.create(r.pod("waiting", asks("100m", "16Mi"), wants(map[corev1.ResourceName]string{spec.ResourceNvidiaGPU: "1"})))
	late := r.create(r.pod("late", asks("100m", "16Mi"), wants(map[corev1.ResourceName]string{spec.ResourceNvidiaGPU: "1"}),
		func(p *corev1.Pod) { p.Spec.SchedulerName = "by-hand" }))
	if err := r.bindWith(late, map[string]string{spec.AnnotationGPUs: two.Annotations[spec.AnnotationGPUs]}); err != nil {
		t.Fatal(err)
	}
	r.eventually(patience, "the pod with the promise of a GPU that is held is evicted", func() error {
		now, err := r.Client.CoreV1().Pods(late.Namespace).Get(t.Context(), late.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.DeletionTimestamp != nil:
			return nil
		case err == nil && containerID(now) != "":
			t.Fatalf("it has a container: %+v", now.Status.ContainerStatuses)
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	r.told(late, spec.ReasonPromiseBroken)
	if got := r.metric(broken) - before[broken]; got < 1 {
		t.Error("no promise was counted as broken")
	}
	now, err := r.Client.CoreV1().Pods(waiting.Namespace).Get(t.Context(), waiting.Name, metav1.GetOptions{})
	if err != nil || now.Spec.NodeName != "" || !strings.Contains(waits(now), "GPU") {
		t.Errorf("a third pod with a GPU is on node %q and waits for %q, %v", now.Spec.NodeName, waits(now), err)
	}
	k := r.sees()
	for i, p := range []*corev1.Pod{two, one} {
		if now := k.lives(p); now != lives[i] {
			t.Errorf("was %s, is %s", lives[i], now)
		}
	}
	r.remove(waiting, late, two, one, plain)
}

// isCard reports whether a report has a card of that number at an address.
func (r *rig) isCard(o *v1alpha1.CustomNodeResource, number, address string) bool {
	i, err := strconv.Atoi(number)
	return err == nil && i < len(o.Status.Devices.NICs) && o.Status.Devices.NICs[i].Address == address
}

// TestDeviceVanishes: what pods hold outlives the agent and their containers. A GPU that is taken from the bus is closed, and its pod goes on; but no new
// container is made with it until it is back.
func TestDeviceVanishes(t *testing.T) {
	long(t)
	r := newRig(t)
	gpus := r.standIns()
	r.driver(gpus)
	o := r.reported("the stand-ins", func(o *v1alpha1.CustomNodeResource) error { return sameDevices(o, gpus) })
	whole := map[corev1.ResourceName]string{spec.ResourceGPUCore: "100"}
	pods := r.run(r.computing("first", "1", "numa,required", whole), r.computing("second", "1", "numa,required", whole))
	first, second := pods[0], pods[1]
	lost := r.beside(first, gpus, o)
	if other := r.beside(second, gpus, o); other.address == lost.address {
		t.Fatalf("both have %s", lost.address)
	}
	unchanged := func(p *corev1.Pod) func() error {
		was := r.settled([]*corev1.Pod{p})[0]
		return func() error {
			k, err := r.look()
			if err == nil && k.lives(p) != was {
				err = fmt.Errorf("was %s, is %s", was, k.lives(p))
			}
			return err
		}
	}
	held := func(o *v1alpha1.CustomNodeResource) error {
		return errors.Join(confirmed(o, first), confirmed(o, second))
	}
	stays, goesOn := unchanged(second), unchanged(first)
	r.reported("the promises are confirmed", held)

	if _, err := r.Guest.Signal(t.Context(), agentName, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually(patience, "the agent runs again and has looked at the devices", func() error {
		if r.metric("hilbert_agent_pods") < 2 {
			return errors.New("it does not know the pods")
		}
		_, err := r.ask("/readyz")
		return err
	})
	r.always(2*tick, "the pods go on", func() error { return errors.Join(goesOn(), stays()) })
	first = r.anew(first)
	r.beside(first, gpus, o)
	goesOn = unchanged(first)
	r.reported("the promises are confirmed by the new agent", held)

	if err := r.Guest.WriteString(t.Context(), "/sys/bus/pci/devices/"+lost.address+"/remove", "1"); err != nil {
		t.Fatal(err)
	}
	r.reported("the GPU is closed", func(o *v1alpha1.CustomNodeResource) error {
		if g := reportedGPU(o, lost); !strings.HasPrefix(g.Closed, "Vanished") {
			return fmt.Errorf("%+v", g)
		}
		return errors.Join(held(o), goesOn())
	})
	r.always(2*tick, "the pods go on", func() error { return errors.Join(goesOn(), stays()) })
	r.end(first)
	r.eventually(patience, "the container that ended is not made again", func() error {
		now, err := r.Client.CoreV1().Pods(first.Namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
		if err == nil && !strings.Contains(said(now), spec.ReasonDeviceUncertain) {
			err = errors.New(said(now))
		}
		return err
	})
	r.told(first, spec.ReasonDeviceUncertain)

	if err := r.Guest.WriteString(t.Context(), "/sys/bus/pci/rescan", "1"); err != nil {
		t.Fatal(err)
	}
	gpus = r.standIns()
	r.deviceFiles(gpus)
	r.reported("the GPU is open again", func(o *v1alpha1.CustomNodeResource) error { return errors.Join(sameDevices(o, gpus), held(o)) })
	first = r.awaitRunning(first)
	if now := r.beside(first, gpus, o); now.address != lost.address {
		t.Errorf("pod first has %s, had %s", now.address, lost.address)
	}
	if err := stays(); err != nil {
		t.Error(err)
	}
	r.remove(first, second)
}

// end kills what a pod's container runs.
func (r *rig) end(p *corev1.Pod) {
	r.t.Helper()
	pids, err := r.PIDs(r.t.Context(), p, container)
	if err == nil {
		err = r.Guest.SignalPID(r.t.Context(), pids[0], syscall.SIGKILL)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// anew ends a pod's container and returns the pod when it has another, which runs.
func (r *rig) anew(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	r.end(p)
	r.eventually(patience, "pod "+p.Name+" has another container", func() error {
		now, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
		if err == nil && containerID(now) == containerID(p) {
			err = errors.New("it has the one that was killed")
		}
		return err
	})
	return r.awaitRunning(p)
}

// said is what keeps a container of a pod from being, the pod's phase aside.
func said(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return w.Reason + ": " + w.Message
		}
	}
	return "it does not wait"
}
