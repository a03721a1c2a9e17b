package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// runtimeCgroup is where the kernel charges what containerd and its shims write: all that pods print.
const runtimeCgroup = services + "/containerd.service"

// statMiB is one number of a file of a cgroup that has a name before each, in MiB.
func (r *rig) statMiB(file, name string) int64 {
	r.t.Helper()
	text, err := r.Guest.ReadFile(r.t.Context(), file)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				r.t.Fatalf("%s: %q: %v", file, line, err)
			}
			return n >> 20
		}
	}
	r.t.Fatalf("%s has no %s:\n%s", file, name, text)
	return 0
}

// writtenMiB is what a cgroup, with all below it, has written to disks.
func (r *rig) writtenMiB(cgroup string) (sum int64) {
	r.t.Helper()
	text, err := r.Guest.ReadFile(r.t.Context(), cgroup+"/io.stat")
	if err != nil {
		r.t.Fatal(err)
	}
	for word := range strings.FieldsSeq(text) {
		if value, ok := strings.CutPrefix(word, "wbytes="); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				r.t.Fatalf("%s: %q: %v", cgroup, word, err)
			}
			sum += n
		}
	}
	return sum >> 20
}

// weighs returns when a cgroup has a weight on disks.
func (r *rig) weighs(cgroup string, want int) {
	r.t.Helper()
	r.eventually(patience, fmt.Sprintf("%s weighs %d on disks", cgroup, want), func() error {
		text, err := r.Guest.ReadFile(r.t.Context(), cgroup+"/io.weight")
		if first, _, _ := strings.Cut(text, "\n"); err == nil && first != fmt.Sprintf("default %d", want) {
			err = fmt.Errorf("io.weight is %q", text)
		}
		return err
	})
}

// TestLogs: what pods print is written by the runtime, as a service of the host, whose page cache it is. The weight of all pods on disks stands beside that of the host's services; and
// while memory is short the pages of log files are dropped, no faster than the rate says, but for the ends of the files, which pods do not notice.
func TestLogs(t *testing.T) {
	long(t)
	r := newRig(t)
	// In MiB: what a pod prints, which is less than the kubelet begins another file for; the end of a file that stays; the rate; what else comes and goes in the runtime's page
	// cache; and what another pod holds so that its NUMA node has less than half of its memory free.
	const prints, keep, rate, other, full = 8, 1, 1, 2, 1100
	const usual, metric = "lending: {enabled: false}", "hilbert_agent_log_pages_dropped_bytes_total"
	lends := func(rate, weight int) string {
		return fmt.Sprintf("writeInterval: 1s, kubeletThresholds: File, memory: {cache: {freeLow: 0.5, freeHigh: 0.5}, logs: {bytesPerSecond: %d}}, "+
			"lending: {refreshInterval: 10s, io: {weights: {pods: %d}}}", rate<<20, weight)
	}
	r.reconfigure(usual, lends(0, 1000))
	r.weighs(kubepods, 1000)
	r.weighs(services, 100)

	fills := r.run(r.dedicated("fills", "1", "1400Mi", spec.NUMABound, "hold", fmt.Sprint(full)))
	before, written, byPods := r.statMiB(runtimeCgroup+"/memory.stat", "file"), r.writtenMiB(services), r.writtenMiB(kubepods)
	pods := r.run(r.pod("prints", does("print", fmt.Sprint(prints))))
	var cached int64
	r.eventually(patience, "all is printed, and cached", func() error {
		if cached = r.statMiB(runtimeCgroup+"/memory.stat", "file"); cached < before+prints {
			return fmt.Errorf("the runtime has %d MiB of page cache, before it had %d", cached, before)
		}
		return nil
	})
	if said, err := r.Guest.Shell(t.Context(), "sync"); err != nil {
		t.Fatal(err, said)
	}
	if byRuntime, byPods := r.writtenMiB(services)-written, r.writtenMiB(kubepods)-byPods; byRuntime < prints || byPods > other {
		t.Errorf("the host's services wrote %d MiB and pods %d, while a pod printed %d", byRuntime, byPods, prints)
	}
	r.always(4*tick, "with a rate of 0 the pages stay", func() error {
		if now := r.statMiB(runtimeCgroup+"/memory.stat", "file"); now < cached-other {
			return fmt.Errorf("%d MiB of %d", now, cached)
		}
		return nil
	})

	unchanged := r.stay(pods)
	began := time.Now()
	r.reconfigure(usual, lends(rate, 1000))
	dropped := 0.0 // since this start of the agent
	r.eventually(patience, "but for the end of the file, the pages are dropped", func() error {
		dropped = r.metric(metric) / (1 << 20)
		if bound := rate*(time.Since(began)+tick).Seconds() + other; dropped > bound {
			t.Errorf("%.0f MiB were dropped in %s, with a rate of %d MiB/s", dropped, time.Since(began), rate)
		}
		if now := r.statMiB(runtimeCgroup+"/memory.stat", "file"); now > before+keep+other || dropped < prints-keep {
			return fmt.Errorf("%d MiB are cached, %d were before anything was printed; %.0f MiB were dropped", now, before, dropped)
		}
		return nil
	})
	took := time.Since(began)
	t.Logf("the runtime's page cache was %d MiB, %d when %d were printed, and %d after %.0f s, with a rate of %d MiB/s", before, cached, prints, r.statMiB(runtimeCgroup+"/memory.stat", "file"), took.Seconds(), rate)
	r.always(2*tick, "the end stays", func() error {
		if now := r.statMiB(runtimeCgroup+"/memory.stat", "file"); now < before+keep-other {
			return fmt.Errorf("%d MiB are cached, %d were before anything was printed", now, before)
		}
		return nil
	})
	if err := unchanged(); err != nil {
		t.Error(err)
	}
	if said, err := r.Logs(t.Context(), pods[0], container); err != nil || len(said) < prints<<20 {
		t.Errorf("the pod's log has %d bytes, %v; want all that it printed", len(said), err)
	}

	r.reconfigure(usual, lends(0, 0))
	r.weighs(kubepods, 100)
	r.remove(append(pods, fills...)...)
}
