package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	mib = 1 << 20
	// actor is where the guest has it.
	actor     = "/usr/bin/actor"
	hierarchy = "/sys/fs/cgroup/"
	container = "main"
	// patience bounds what takes as long as it takes in an emulated machine, pause is how often the guest is asked.
	patience, pause = 3 * time.Minute, 500 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(vmtest.Run(m, join.Options{})) }

// long leaves a test out of the short form, which is to take a few minutes.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short")
	}
}

// installed is whether the guest has the actor.
var installed struct {
	once sync.Once
	err  error
}

// rig is the node, for one test.
type rig struct {
	*join.Node
	t *testing.T
}

func newRig(t *testing.T) *rig {
	r := &rig{vmtest.Node(t), t}
	installed.once.Do(func() { installed.err = r.install() })
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	return r
}

// install builds the actor and brings it to the guest.
func (r *rig) install() error {
	binary := filepath.Join(r.t.TempDir(), "actor")
	build := exec.CommandContext(r.t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary, "./actor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the actor: %w\n%s", err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	return r.Guest.WriteFile(r.t.Context(), actor, bytes.NewReader(data), 0o755)
}

// act runs the actor and reads its answer.
func (r *rig) act(answer any, args ...string) {
	r.t.Helper()
	got, err := r.Guest.Exec(r.t.Context(), append([]string{actor}, args...)...)
	if err == nil {
		err = got.Err()
	}
	if err == nil {
		err = json.Unmarshal([]byte(got.Stdout), answer)
	}
	if err != nil {
		r.t.Fatalf("actor %v: %v\n%s%s", args, err, got.Stdout, got.Stderr)
	}
}

// pod is a running pod and its cgroups, below the root of the hierarchy.
type pod struct {
	*corev1.Pod
	group, container string
}

// run creates a pod that is deleted when the test ends, and waits until it runs. Requests and limits are MiB; 0: none.
func (r *rig) run(name string, request, limit int64, args ...string) pod {
	r.t.Helper()
	var resources corev1.ResourceRequirements
	if request > 0 {
		resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(request*mib, resource.BinarySI)}
	}
	if limit > 0 {
		resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(limit*mib, resource.BinarySI)}
	}
	wanted := r.BusyPod(name, resources, args...)
	r.t.Cleanup(func() {
		if err := r.DeletePod(context.WithoutCancel(r.t.Context()), wanted); err != nil {
			r.t.Error(err)
		}
	})
	made, err := r.RunPod(r.t.Context(), wanted)
	if err != nil {
		r.t.Fatal(err)
	}
	out := pod{Pod: made}
	out.group, err = r.PodCgroup(r.t.Context(), made)
	if err == nil {
		out.container, err = r.ContainerCgroup(r.t.Context(), made, container)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	out.group, out.container = strings.TrimPrefix(out.group, hierarchy), strings.TrimPrefix(out.container, hierarchy)
	return out
}

func (r *rig) field(path string) string {
	r.t.Helper()
	text, err := r.Guest.Field(r.t.Context(), hierarchy+path)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

func (r *rig) number(path string) int64 {
	r.t.Helper()
	n, err := strconv.ParseInt(r.field(path), 10, 64)
	if err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return n
}

// stat is a row of a cgroup's memory.stat.
func (r *rig) stat(cgroup, name string) int64 {
	r.t.Helper()
	for line := range strings.Lines(r.field(cgroup + "/memory.stat")) {
		if row, value, _ := strings.Cut(strings.TrimSpace(line), " "); row == name {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return n
		}
	}
	r.t.Fatalf("%s/memory.stat has no %s", cgroup, name)
	return 0
}

// set writes a file of a cgroup.
func (r *rig) set(path, value string) {
	r.t.Helper()
	if err := r.Guest.WriteString(context.WithoutCancel(r.t.Context()), hierarchy+path, value); err != nil {
		r.t.Errorf("%s = %s: %v", path, value, err)
	}
}

// eventually waits until check has no error.
func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	var err error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(pause) {
		if err = check(); err == nil {
			return
		}
	}
	r.t.Fatalf("not so: %s: %v", what, err)
}

// holds waits until a row of a cgroup's memory.stat is at least so many MiB.
func (r *rig) holds(cgroup, name string, least int64) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%s has %d MiB of %s", cgroup, least, name), func() error {
		if n := r.stat(cgroup, name); n < least*mib {
			return fmt.Errorf("it has %d MiB", n/mib)
		}
		return nil
	})
}

// shrunk is what the actor says of a request.
type shrunk struct {
	Outcome string
	Got     int64
	Steps   int
	Took    time.Duration
	Longest time.Duration
}

func (s shrunk) String() string {
	return fmt.Sprintf("%s: %d MiB in %d steps and %s, the longest %s", s.Outcome, s.Got/mib, s.Steps, s.Took.Round(time.Millisecond), s.Longest.Round(time.Millisecond))
}

// shrink asks for some MiB of a cgroup.
func (r *rig) shrink(cgroup string, size int64, kind string, more ...string) (out shrunk) {
	r.t.Helper()
	if len(more) == 0 {
		more = []string{strconv.Itoa(32 * mib), "10"}
	}
	before := r.number(cgroup + "/memory.current")
	r.act(&out, append([]string{"shrink", cgroup, strconv.FormatInt(size*mib, 10), kind}, more...)...)
	after := r.number(cgroup + "/memory.current")
	r.t.Logf("%s by %d MiB (%s): from %d to %d MiB; %s", cgroup[:strings.LastIndexByte(cgroup, '/')], size, kind, before/mib, after/mib, out)
	if taken := before - after; taken > (size+32)*mib || (out.Outcome == "Done" && taken < size*mib*8/10) {
		r.t.Errorf("%d MiB were taken, %d asked for", taken/mib, size)
	}
	return out
}

// TestShrink: page cache of a reclaimed pod is taken as asked, in steps; the pressure that an online pod really feels ends a request.
func TestShrink(t *testing.T) {
	long(t)
	r := newRig(t)
	hog := r.run("hog", 0, 0, "cache", "300")
	r.holds(hog.container, "file", 290)
	if got := r.shrink(hog.group, 128, "all"); got.Outcome != "Done" || got.Steps < 4 {
		t.Errorf("128 MiB: %s", got)
	}
	if got := r.shrink(hog.group, 32, "file"); got.Outcome != "Done" {
		t.Errorf("page cache alone: %s", got)
	}
	slow := []string{strconv.Itoa(mib), "100"}
	// The kernel may take a little less in a step than it was asked for.
	if got := r.shrink(hog.group, 16, "all", slow...); got.Outcome != "Done" || got.Steps < 16 || got.Steps > 24 {
		t.Errorf("a MiB at a time: %s", got)
	}
	online := r.run("online", 32, 48, "cache", "256", "1") // it reads four times what it may hold
	r.eventually("the online pod feels pressure", func() error {
		if text := r.field(online.group + "/memory.pressure"); strings.Contains(text, "some avg10=0.") {
			return errors.New(text)
		}
		return nil
	})
	t.Logf("the online pod's memory.pressure: %s", r.field(online.group+"/memory.pressure"))
	if got := r.shrink(hog.group, 64, "all", append(slow, online.group, "0.02")...); got.Outcome != "Pressed" || got.Got > 32*mib {
		t.Errorf("beside an online pod under pressure: %s", got)
	}
	if got := r.shrink(hog.group, 512, "all"); got.Outcome != "Partial" {
		t.Errorf("more than it has: %s", got)
	}
}

// protected is what the actor says of memory.low.
type protected struct {
	Recursive bool
	Lows      []struct {
		Dir   string
		Bytes int64
	}
	Before, After struct {
		Wanted    int64
		Effective struct {
			Value float64
			Known bool
		}
		Reason, At string
	}
}

// TestProtection: a reclaimed pod reads files without end below a kubepods that is full. Without memory.low the online pod loses its cache to it and reads
// it again and again; with memory.low on the whole path it keeps it.
func TestProtection(t *testing.T) {
	long(t)
	r := newRig(t)
	const kubepods = "kubepods"
	online := r.run("online", 160, 0, "cache", "100", "6000")
	r.holds(online.container, "file", 90)
	before := r.field(kubepods + "/memory.max")
	t.Cleanup(func() { r.set(kubepods+"/memory.max", before) })
	r.set(kubepods+"/memory.max", strconv.FormatInt(r.number(kubepods+"/memory.current")+160*mib, 10))
	r.run("hog", 0, 0, "cache", "400", "1")
	r.eventually("kubepods is full", func() error {
		if at := r.number(kubepods + "/memory.current"); at < r.number(kubepods+"/memory.max")-8*mib {
			return fmt.Errorf("it has %d MiB", at/mib)
		}
		return nil
	})
	window := func() (refaults, least int64) {
		begin, least := r.stat(online.container, "workingset_refault_file"), int64(1)<<40
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(pause) {
			least = min(least, r.stat(online.container, "file"))
		}
		return r.stat(online.container, "workingset_refault_file") - begin, least
	}
	without, leastWithout := window()
	r.holds(online.container, "file", 90)
	var got protected
	r.act(&got, "protect", online.group, online.container, strconv.Itoa(120*mib))
	for _, low := range got.Lows {
		t.Cleanup(func() { r.set(low.Dir+"/memory.low", "0") })
	}
	t.Logf("memory_recursiveprot %t; before: %+v; after: %+v; written: %+v", got.Recursive, got.Before, got.After, got.Lows)
	time.Sleep(5 * time.Second) // what was evicted before comes back first
	with, leastWith := window()
	t.Logf("without memory.low: %d pages came back, at least %d MiB in memory; with it: %d pages, %d MiB", without, leastWithout/mib, with, leastWith/mib)
	switch {
	case len(got.Lows) != 4:
		t.Errorf("%d cgroups of the path have a memory.low, want kubepods, its class, pod and container", len(got.Lows))
	case got.Before.Reason != "Short" || got.After.Reason != "" || got.After.Effective.Value < 0.9*float64(got.After.Wanted):
		t.Errorf("before %+v, after %+v", got.Before, got.After)
	case without < 256 || with > without/4 || leastWith < leastWithout:
		t.Error("memory.low makes too little of a difference")
	}
}

// TestLimitIsKept: a BestEffort pod has a memory.max in its own cgroup, which neither kubelet nor runtime know. It outlives a restart of the kubelet and of
// the container, it is put back when somebody takes it away, and it binds.
func TestLimitIsKept(t *testing.T) {
	long(t)
	r := newRig(t)
	limited := r.run("limited", 0, 0, "hold", "40")
	const limit = 100 * mib
	answers, failed := make(chan string, 1), make(chan error, 1)
	go func() {
		got, err := r.Guest.Exec(r.t.Context(), actor, "keep", "40", limited.group+"/memory.max="+strconv.Itoa(limit))
		if err == nil {
			err = got.Err()
		}
		failed <- err
		answers <- got.Stdout
	}()
	kept := func() {
		t.Helper()
		r.eventually("the limit is there", func() error {
			if at := r.field(limited.group + "/memory.max"); at != strconv.Itoa(limit) {
				return errors.New(at)
			}
			return nil
		})
	}
	kept()
	r.set(limited.group+"/memory.max", "max")
	kept()
	if err := r.Guest.Service(join.Kubelet).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids, err := r.PIDs(t.Context(), limited.Pod, container)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Guest.SignalPID(t.Context(), pids[0], 9); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AwaitPod(t.Context(), limited.Pod, func(p *corev1.Pod) error {
		if s := p.Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount == 0 || s[0].State.Running == nil {
			return errors.New("its container has not been started again")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	said := <-answers
	t.Logf("the table: %s", said)
	kept()
	var counts struct{ Written, Reverted, Refused int }
	if err := json.Unmarshal([]byte(said), &counts); err != nil || counts.Reverted != 1 || counts.Written != 2 || counts.Refused != 0 {
		t.Errorf("the table did %s, %v; want two writes, one of them putting back", said, err)
	}
	_, err = r.ExecIn(t.Context(), limited.Pod, container, "/busy", "hold", "120") // it ends when it is killed
	if events := r.field(limited.group + "/memory.events"); err == nil || strings.Contains(events, "oom_kill 0\n") {
		t.Errorf("more than the limit can be held: %v\n%s", err, events)
	}
}

// TestOffload: anonymous memory of a reclaimed pod goes to swap where its cgroups may swap, and stays where page cache alone is asked for.
func TestOffload(t *testing.T) {
	long(t)
	r := newRig(t)
	const file = "/root/swap"
	var said string
	r.act(&said, "swapon", file, "256")
	t.Cleanup(func() { // after the pods have gone
		if got, err := r.Guest.Exec(context.WithoutCancel(t.Context()), actor, "swapoff", file); err != nil || got.Status != 0 {
			t.Errorf("swapoff: %+v, %v", got, err)
		}
	})
	hog := r.run("hog", 0, 0, "hold", "150")
	r.holds(hog.container, "anon", 150)
	t.Logf("memory.swap.max: pod %s, container %s", r.field(hog.group+"/memory.swap.max"), r.field(hog.container+"/memory.swap.max"))
	var table struct{ Written, Right, Refused int }
	r.act(&table, "keep", "1", hog.container+"/memory.swap.max="+strconv.Itoa(256*mib))
	if table.Refused > 0 {
		t.Errorf("memory.swap.max: %+v", table)
	}
	if got := r.shrink(hog.group, 16, "file"); got.Outcome == "Done" {
		t.Errorf("page cache alone, of a pod that has none: %s", got)
	}
	if at := r.number(hog.group + "/memory.swap.current"); at > 4*mib {
		t.Errorf("%d MiB are in swap, though page cache alone was asked for", at/mib)
	}
	if got := r.shrink(hog.group, 64, "all"); got.Outcome != "Done" {
		t.Errorf("64 MiB: %s", got)
	}
	if at := r.number(hog.group + "/memory.swap.current"); at < 48*mib {
		t.Errorf("%d MiB are in swap", at/mib)
	}
}
