package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/bench"
)

// patience bounds every wait; it is no measure of speed.
const patience = 90 * time.Second

// TestMain makes the test binary a hilbert-lab when its first argument is a command: a benchmark starts its children that way.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lab prepares hilbert-lab with arguments, in a home of its own.
func lab(home string, arguments ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], arguments...)
	command.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "KUBECONFIG=")
	return command
}

// TestUp: the lab comes up, kubectl finds it, a workload's pods wait for a scheduler, Ctrl-C ends it and leaves nothing behind.
func TestUp(t *testing.T) {
	home, extra := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	temporary := t.TempDir()
	up := lab(home, "up", "--nodes", "3", "--kubeconfig", extra)
	up.Env = append(up.Env, "TMPDIR="+temporary)
	var output bytes.Buffer
	up.Stdout, up.Stderr = &output, &output
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	t.Cleanup(func() { _ = up.Process.Kill() })

	known := filepath.Join(home, "cache", "hilbert-lab", "kubeconfig")
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(extra); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("up ended: %v\n%s", err, output.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("no kubeconfig within %s", patience)
		}
	}
	nodes, err := lab(home, "kubectl", "get", "nodes", "-o", "name").CombinedOutput()
	if err != nil || strings.Count(string(nodes), "node/") != 3 {
		t.Errorf("kubectl get nodes: %v\n%s", err, nodes)
	}
	missing := lab(home, "kubectl", "get", "pod", "nosuch")
	var exit *exec.ExitError
	if out, err := missing.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "NotFound") {
		t.Errorf("kubectl of a missing pod: %v\n%s", err, out)
	}
	elsewhere := lab(home, "kubectl", "get", "nodes")
	elsewhere.Env = append(elsewhere.Env, "KUBECONFIG="+filepath.Join(home, "none"))
	if out, err := elsewhere.CombinedOutput(); err == nil {
		t.Errorf("kubectl ignored KUBECONFIG:\n%s", out)
	}

	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("up after Ctrl-C: %v\n%s", err, output.String())
		}
	case <-time.After(patience):
		t.Fatalf("up did not end within %s", patience)
	}
	for _, path := range []string{known, extra} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind (%v)", path, err)
		}
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// TestInterruptedBench: a benchmark that is cut short fails, prints no result, and takes its processes and data with it.
func TestInterruptedBench(t *testing.T) {
	home, temporary := t.TempDir(), t.TempDir()
	command := lab(home, "bench", "schedule", "--nodes", "40", "--pods", "2000", "--only", "raw", "--dir", filepath.Join(home, "logs"))
	command.Env = append(command.Env, "TMPDIR="+temporary)
	var out bytes.Buffer
	command.Stdout = &out
	progress, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	var said strings.Builder
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.HasPrefix(lines.Text(), "round 1") {
			if err := command.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("got %v, want exit status 1 and no result\n%s%s", err, said.String(), out.String())
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestBadInput(t *testing.T) {
	for arguments, want := range map[string]string{
		"up --nodes -1":                           "--nodes is -1",
		"up --port 70000":                         "--port is 70000",
		"up --time-scale 0":                       "--time-scale is 0",
		"up --dir /dev/null/data":                 "name one that is writable",
		"bench schedule -o yaml":                  `--output is "yaml"`,
		"bench schedule --only volcano":           "choose from raw, kube-scheduler, hilbertd",
		"bench schedule --nodes 1 --pods 1000000": "fewer --pods",
		"raw-binder --kubeconfig /nonexistent":    "/nonexistent",
	} {
		out, err := lab(t.TempDir(), strings.Fields(arguments)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want an error with %q\n%s", arguments, err, want, out)
		}
	}
}

// TestBenchSchedule runs the whole protocol once, small: all contestants bind all pods, and every figure is measured.
func TestBenchSchedule(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	home := t.TempDir()
	command := lab(home, "bench", "schedule", "--nodes", "40", "--pods", "320", "--rounds", "1", "--mixed", "-o", "json", "--dir", filepath.Join(home, "logs"))
	var progress bytes.Buffer
	command.Stderr = &progress
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	var result bench.Result
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var names []string
	for _, c := range result.Contestants {
		names = append(names, c.Name)
		for i, figure := range []float64{
			c.Median.PodsPerSecond, c.Median.SchedulerCPUMicrosPerPod, c.Median.APIServerCPUMicrosPerPod, c.Median.EtcdCPUMicrosPerPod,
			float64(c.Median.SchedulerPeakBytes), float64(c.Median.APIServerPeakBytes), float64(c.Median.EtcdPeakBytes), c.Median.Seconds,
		} {
			if figure <= 0 {
				t.Errorf("%s: figure %d is %g", c.Name, i, figure)
			}
		}
		if c.RatioToRaw == nil || c.RatioToKubeScheduler == nil {
			t.Errorf("%s: no ratios", c.Name)
		}
	}
	if got := fmt.Sprint(names); got != "[raw-16 raw-64 raw-256 kube-scheduler hilbertd]" || fmt.Sprint(result.Protocol.Order) != got {
		t.Errorf("contestants %s, order %v", got, result.Protocol.Order)
	}
	if result.Protocol.Classes != 16 || result.Protocol.Pods != 320 {
		t.Errorf("protocol: %+v", result.Protocol)
	}
}

// TestBenchStandin: a hundred nodes, a few hundred pods, all bound at two fills; rates are not judged.
func TestBenchStandin(t *testing.T) {
	out, err := lab(t.TempDir(), "bench", "standin", "--nodes=100", "--pods=300", "--rounds=1", "--allocated=0,75", "-o", "json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var result bench.StandinResult
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(result.Levels) != 2 || result.Levels[0].AllocatedPercent != 0 || result.Levels[1].AllocatedPercent != 75 {
		t.Fatalf("levels: %+v, want 0 and 75", result.Levels)
	}
	for _, l := range result.Levels {
		if l.PodsPerSecond <= 0 || l.CPUMicrosPerPod <= 0 || l.StandinCPUMicrosPerPod <= 0 || l.Seconds <= 0 || l.CreatedSeconds <= 0 {
			t.Errorf("%d%% allocated: %+v, want positive figures", l.AllocatedPercent, l.StandinRound)
		}
	}
	for _, bad := range [][]string{{"--nodes=2", "--pods=1000"}, {"--allocated=100"}, {"-o", "xml"}} {
		if out, err := lab(t.TempDir(), append([]string{"bench", "standin"}, bad...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "give") && !strings.Contains(string(out), "choose") {
			t.Errorf("%v: %v, %s; want a refusal that says what to give", bad, err, out)
		}
	}
}

// TestBenchSplit: one process, and a leader with two schedulers that decide for it; rates are not judged.
func TestBenchSplit(t *testing.T) {
	out, err := lab(t.TempDir(), "bench", "split", "--nodes=100", "--pods=300", "--rounds=1", "--schedulers=0,2", "--inside=1,2", "-o", "json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var result bench.SplitResult
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(result.Arrangements) != 3 {
		t.Fatalf("arrangements: %+v, want three", result.Arrangements)
	}
	for i, processes := range []int{1, 1, 3} {
		a := result.Arrangements[i]
		if len(a.Processes) != processes || (a.Committed > 0) != (i > 0) || a.HandedOut < a.Committed || a.PodsPerSecond <= 0 || a.Seconds <= 0 || a.CreatedSeconds <= 0 {
			t.Errorf("%s: %+v, want %d processes, and that pods were handed out where there are several schedulers", a.Name, a.SplitRound, processes)
		}
		for _, p := range a.Processes {
			if p.HeapBytes <= 0 || p.PeakBytes < p.HeapBytes {
				t.Errorf("%s: %+v, want its memory", a.Name, p)
			}
		}
	}
	for _, bad := range [][]string{{"--nodes=2", "--pods=1000"}, {"--schedulers=-1"}, {"--inside=0"}, {"--api-server=etcd"}, {"-o", "xml"}} {
		if out, err := lab(t.TempDir(), append([]string{"bench", "split"}, bad...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "give") && !strings.Contains(string(out), "choose") {
			t.Errorf("%v: %v, %s; want a refusal that says what to give", bad, err, out)
		}
	}
}

// TestBenchRequests: a few masters have what they asked for, give a half of it back and have as much anew; rates are not judged.
func TestBenchRequests(t *testing.T) {
	cases := bench.ContainerCases()
	if testing.Short() {
		cases = cases[:1]
	}
	const masters, each = 3, 20
	out, err := lab(t.TempDir(), "bench", "requests", "--nodes=20", fmt.Sprintf("--masters=%d", masters), fmt.Sprintf("--containers=%d", each), "--rounds=1", "--case="+strings.Join(cases, ","), "-o", "json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var result bench.ContainersResult
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(result.Cases) != len(cases) {
		t.Fatalf("cases: %+v, want %v", result.Cases, cases)
	}
	for _, c := range result.Cases {
		// Each container is a pod and a Binding at least, and each master is told by a status.
		if a := c.Ask; a.Containers != masters*each || a.ContainersPerSecond <= 0 || a.P50Millis <= 0 || a.P99Millis < a.P50Millis || a.Statuses < masters || a.Requests["POST pods"] < 1 || a.Requests["POST pods/binding"] < 1 {
			t.Errorf("%s: %+v", c.Name, a)
		}
		if x := c.Exchange; (x == nil) != (c.Name == "gang") || x != nil && (x.Containers != masters*each/2 || x.Requests["DELETE pods"] < 1 || x.Requests["POST pods"] < 1) {
			t.Errorf("%s, given back and asked for anew: %+v", c.Name, x)
		}
	}
	for _, bad := range [][]string{{"--nodes=2"}, {"--masters=0"}, {"--containers=900"}, {"--case=some"}, {"--rate=-1"}, {"--api-server=etcd"}, {"-o", "xml"}} {
		if out, err := lab(t.TempDir(), append([]string{"bench", "requests"}, bad...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "give") && !strings.Contains(string(out), "choose") {
			t.Errorf("%v: %v, %s; want a refusal that says what to give", bad, err, out)
		}
	}
}
