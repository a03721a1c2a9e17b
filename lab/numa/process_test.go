package numa

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/controlplane"
)

// The environment makes this test binary one of its children: role, directory, and for hilbertd its name and the age of reports that are stale.
const (
	asRole    = "HILBERT_ZONES_ROLE"
	inDir     = "HILBERT_ZONES_DIR"
	scheduler = "HILBERT_ZONES_SCHEDULER"
	stale     = "HILBERT_ZONES_STALE"
)

// patience is how long a child may take to start, and anything to come to rest, on a busy machine.
var patience = flag.Duration("numa.patience", 4*time.Minute, "how long anything may take")

func TestMain(m *testing.M) {
	flag.Parse()
	role := os.Getenv(asRole)
	if role == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the parent's
		cancel()
	}()
	serve := servePlane
	if role == "hilbertd" {
		serve = serveHilbertd
	}
	if err := serve(ctx, os.Getenv(inDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func servePlane(ctx context.Context, dir string) error {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(dir, "plane"), Benchmark: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	err = errors.Join(plane.InstallDefinitions(ctx), plane.WriteKubeconfig(kubeconfig(dir)))
	if err == nil {
		fmt.Println("ready")
		select {
		case <-ctx.Done():
		case err = <-plane.Failed():
		}
	}
	return errors.Join(err, plane.Stop(context.WithoutCancel(ctx)))
}

func kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

func serveHilbertd(ctx context.Context, dir string) error {
	c := spec.Default()
	c.ClientConnection.Kubeconfig, c.Server.BindAddress = kubeconfig(dir), "127.0.0.1:0"
	c.SchedulerName, c.LeaderElection.Name = os.Getenv(scheduler), os.Getenv(scheduler)
	age, err := time.ParseDuration(os.Getenv(stale))
	if err != nil {
		return err
	}
	c.Scheduling.NodeReports.StaleAfter = spec.Duration(age)
	c.Scheduling.NodeReports.Policies = spec.PoliciesIgnore // this control plane has none
	return daemon.Run(ctx, c, daemon.Options{
		OnListen: func(address string) { fmt.Println("address", address) },
		OnSynced: func() { fmt.Println("ready") },
	})
}

// process is a child.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.Closer
	address string // where it serves, if it says so
	log     string
	ended   chan struct{}
}

// spawn starts a child and returns when it is ready.
func spawn(t *testing.T, dir, name, role string, env ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(t.TempDir(), name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), asRole+"="+role, inDir+"="+dir), env...)
	p.cmd.Stderr = log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	ready := make(chan struct{})
	go p.follow(stdout, ready)
	select {
	case <-ready:
	case <-p.ended:
		t.Fatalf("%s has ended:\n%s", name, p.tail())
	case <-time.After(*patience):
		t.Fatalf("%s is not ready:\n%s", name, p.tail())
	}
	return p
}

func (p *process) follow(stdout io.Reader, ready chan struct{}) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "address "); ok {
			p.address = address
		}
		if lines.Text() == "ready" {
			close(ready)
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

func (p *process) tail() string {
	const most = 3000
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-most):])
}

// stop ends the child as the end of its parent would.
func (p *process) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// used is the CPU time of a process so far, to 10 ms.
func used(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	const utime, stime, tick = 14 - 3, 15 - 3, 10 * time.Millisecond
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the command before may hold anything
	user, err1 := strconv.ParseInt(fields[utime], 10, 64)
	system, err2 := strconv.ParseInt(fields[stime], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * tick
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that a process has had resident, in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peakLine.FindSubmatch(status)
	if found == nil {
		t.Fatal("no VmHWM")
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

//nolint:gosec // hilbertd's certificate is one that nobody vouches for
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 30 * time.Second}

// metrics are hilbertd's, by name and labels as they are written.
func (p *process) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	answer, err := insecure.Get("https://" + p.address + "/metrics")
	if err != nil {
		t.Fatalf("%v\n%s", err, p.tail())
	}
	defer answer.Body.Close()
	out := make(map[string]float64)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = value
		}
	}
	return out
}
