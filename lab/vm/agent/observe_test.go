package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// benchUnit is what the benchmark of package observe calls the CPU time of one reading, in nanoseconds.
const benchUnit = "cpu-ns/op"

// TestObserveCost measures what the agent costs with its default settings while it reads the counters of a hundred containers each second, as CPU
// time of its process.
// An emulated core is many times slower than the host's, and the slower the more the host has to do. So the same code is run here and there, in
// the guest before and after the measurement, and the ratio taken out.
func TestObserveCost(t *testing.T) {
	long(t)
	r := newRig(t)
	r.reconfigure(fmt.Sprintf(", tickInterval: %s, lending: {enabled: false}", tick), "") // what a new user has
	const pods, containers, runs, during = 10, 10, 3, 60 * time.Second
	bench := r.uploadBench()
	before, onHost := r.guestCost(), r.hostCost(bench)
	none := r.cost(1, during/2)
	var wanted []*corev1.Pod
	for i := range pods {
		p := r.pod(fmt.Sprintf("many-%d", i))
		for n := range containers - 1 {
			c := p.Spec.Containers[0]
			c.Name = fmt.Sprintf("more-%d", n)
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		wanted = append(wanted, r.create(p))
	}
	for _, p := range wanted {
		r.awaitRunning(p)
	}
	observed := r.metric("hilbert_agent_observations_total")
	begin := time.Now()
	many := r.cost(runs, during)
	rate := (r.metric("hilbert_agent_observations_total") - observed) / time.Since(begin).Seconds()
	after := r.guestCost()
	onHost = min(onHost, r.hostCost(bench))
	slower := float64(before+after) / 2 / float64(onHost)
	t.Logf("CPU of the agent in %% of an emulated core, over %s: without pods %.1f; with %d containers, read %.2f times a second, %.1f",
		during, none, pods*containers, rate, many)
	t.Logf("the same reads of files take %s of CPU in the guest before, and %s after, %s on the host, %.0f times less: %.2f %% of a core of the host",
		before, after, onHost, slower, many[len(many)/2]/slower)
	if got := many[len(many)/2] / slower; got >= 1 {
		t.Errorf("that is %.2f %% of a core of the host, want less than 1", got)
	}
}

const (
	sources    = root + "/node/observe"
	guestBench = "/tmp/observe"
	benchFlags = "-test.run=^$ -test.bench=Read100/slow=5 -test.benchtime=30x -test.count=3"
)

// uploadBench builds the benchmark of package observe, a reading of a hundred containers' files, and brings it to the guest.
func (r *rig) uploadBench() (binary string) {
	r.t.Helper()
	binary = filepath.Join(r.t.TempDir(), "observe.test")
	build := exec.CommandContext(r.t.Context(), "go", "-C", root, "test", "-c", "-o", binary, "./node/observe")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Open(binary)
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(r.Guest.WriteFile(r.t.Context(), guestBench+"/test", file, 0o755), r.upload(sources, guestBench, "testdata")); err != nil {
		r.t.Fatal(err)
	}
	return binary
}

// guestCost is the CPU time of one reading in the guest. What the host takes from it the guest counts as its own.
func (r *rig) guestCost() time.Duration {
	r.t.Helper()
	out, err := r.Guest.Shell(r.t.Context(), "cd "+guestBench+" && ./test "+benchFlags)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.least(out)
}

// hostCost is the CPU time of one reading on the host.
func (r *rig) hostCost(binary string) time.Duration {
	r.t.Helper()
	host := exec.CommandContext(r.t.Context(), binary, strings.Fields(benchFlags)...)
	host.Dir = sources
	out, err := host.Output()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.least(string(out))
}

// upload copies the files of a directory.
func (r *rig) upload(from, to, name string) error {
	return fs.WalkDir(os.DirFS(from), name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, path))
		if err != nil {
			return err
		}
		return r.Guest.WriteString(r.t.Context(), to+"/"+path, string(text))
	})
}

// least is the least CPU time of an operation in a benchmark's output.
func (r *rig) least(output string) (out time.Duration) {
	r.t.Helper()
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		for i, unit := range fields {
			if unit != benchUnit {
				continue
			}
			n, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				r.t.Fatal(err)
			}
			if d := time.Duration(n); out == 0 || d < out {
				out = d
			}
		}
	}
	if out == 0 {
		r.t.Fatalf("no %s in:\n%s", benchUnit, output)
	}
	return out
}

// cost is the agent's part of a core in percent, several times, ascending.
func (r *rig) cost(runs int, during time.Duration) (out []float64) {
	r.t.Helper()
	for range runs {
		begin, cpu := time.Now(), r.cpuTime()
		time.Sleep(during)
		out = append(out, 100*(r.cpuTime()-cpu).Seconds()/time.Since(begin).Seconds())
	}
	slices.Sort(out)
	return out
}

// cpuTime is what the agent's process has used so far.
func (r *rig) cpuTime() time.Duration {
	r.t.Helper()
	state, err := r.Guest.Service(agentName).State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	stat, err := r.Guest.ReadFile(r.t.Context(), fmt.Sprintf("/proc/%d/stat", state.PID))
	if err != nil {
		r.t.Fatal(err)
	}
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const user, system, hertz = 11, 12, 100 // as they stand after the name
	var ticks int
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			r.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz
}
