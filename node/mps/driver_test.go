package mps

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/cdi/cditest"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// A test program that is carried to such a machine without the tree is told where the manifest is.
const manifestVariable = "HILBERT_MPS_MANIFEST"

// bench is a GPU with the pod of deploy/mps.yaml on it.
type bench struct {
	t      *testing.T
	dir    string
	client string // the program of testdata/client.cu
	params Params
	gpu    gpu.GPU
	device topology.GPU // as the scheduler is told of it
	whole  int          // its multiprocessors
	script *exec.Cmd
}

// TestOnDriver runs the script of deploy/mps.yaml and clients in slices with NVIDIA's own programs. It starts MPS daemons and ends them, and changes no setting
// of the GPU. Every other test of this package has stand-ins for them.
func TestOnDriver(t *testing.T) {
	cditest.Require(t)
	b := newBench(t)
	t.Run("Whole", b.wholeGPU)
	t.Run("Sizes", b.sizes)
	t.Run("Memory", b.memory)
	t.Run("Beside", b.beside)
	t.Run("Bandwidth", b.bandwidth)
	t.Run("PerProcess", b.perProcess)
	t.Run("Cooperative", b.cooperative)
	t.Run("Containers", b.containers)
	t.Run("Users", b.users)
	t.Run("Fault", b.fault)
	t.Run("End", b.end)
}

// newBench compiles the client and starts the script. The GPU is the first that the driver tells of.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), params: Defaults()}
	b.client = filepath.Join(b.dir, "client")
	for _, dir := range []string{b.dir, filepath.Dir(b.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // clients are other users
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "nvcc", "-arch=native", "-O2", "-o", b.client, cditest.Client("testdata/client.cu")).CombinedOutput(); err != nil {
		t.Fatalf("nvcc: %v\n%s", err, out)
	}
	b.gpu = b.inventory(&gpu.SMI{Run: gpu.Command("nvidia-smi"), Proc: os.DirFS("/proc")})
	_, view := gpu.Step(&gpu.Params{Clients: 24}, gpu.State{}, &gpu.Observation{Inventory: &gpu.Inventory{GPUs: []gpu.GPU{b.gpu}}})
	b.device = view.Devices(&gpu.Params{Clients: 24}, nil, topology.OwnerHilbert, func(string) bool { return true }).GPU[0]
	if !b.device.Strengths.Has(topology.Soft) || b.device.Grain == 0 {
		t.Fatalf("the GPU gives no soft slices: %+v, %+v", b.device, view)
	}
	b.params.Root = filepath.Join(b.dir, "mps")
	name := filepath.Join(b.dir, "supervise.sh")
	manifest := cmp.Or(os.Getenv(manifestVariable), deployed)
	if err := os.WriteFile(name, []byte(script(t, manifest)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.script = exec.Command("sh", "-c", "mount --make-rshared / && exec sh "+name)
	b.script.Env = append(os.Environ(), "MPS_ROOT="+b.params.Root, "GPU_SPOOL="+b.dir+"/gpu", "PERIOD=0.5")
	b.script.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setpgid: true}
	b.script.Stdout, b.script.Stderr = os.Stdout, os.Stderr
	if err := b.script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-b.script.Process.Pid, syscall.SIGKILL) })
	eventually(t, "the GPU is served", func() bool { s := b.state(); return s != nil && s.Serves("580") == "" })
	return b
}

// inventory is the GPU as the driver tells of it: everything that the agent counts with is known.
func (b *bench) inventory(driver *gpu.SMI) gpu.GPU {
	b.t.Helper()
	inv, err := driver.Inventory(b.t.Context())
	if err != nil || len(inv.GPUs) == 0 {
		b.t.Fatalf("the driver's inventory: %+v, %v", inv, err)
	}
	g := inv.GPUs[0]
	if _, err := os.Stat(g.Node); err != nil || g.UUID == "" || g.Model == "" || g.Memory == 0 || g.Architecture == "" || g.MIG != gpu.MIGOff ||
		g.Compute != gpu.ComputeDefault || g.Lost != "" || inv.Version == "" {
		b.t.Fatalf("driver %s: %+v, %v", inv.Version, g, err)
	}
	return g
}

func (b *bench) state() *State {
	s, err := b.params.ReadState(os.DirFS(b.params.Root), b.gpu.UUID, time.Now())
	if err != nil {
		return nil
	}
	return s
}

// edits are what a slice's containers get; 0: those of a whole GPU.
func (b *bench) edits(t *testing.T, milli int16, memory uint32) cdi.Edits {
	t.Helper()
	var s *State
	eventually(t, "the daemon has a memory to share", func() bool { s = b.state(); return s != nil && s.Shared.Name != "" })
	if milli == topology.FullGPU {
		return b.params.Whole(b.gpu.UUID, s.Shared.Name)
	}
	e, err := b.params.Edits(Slice{UUID: b.gpu.UUID, Milli: milli, Memory: memory}, s.Shared.Name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// start starts the client as a container with the edits is: a user who is not root, with the mounts in a mount namespace of its own. It sees the script's.
func (b *bench) start(ctx context.Context, uid int, e cdi.Edits, arguments ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner, error) {
	var mounts strings.Builder
	for _, m := range e.Mounts {
		fmt.Fprintf(&mounts, "mkdir -p %[2]s && mount --bind %[1]s %[2]s && mount -o remount,%[3]s %[2]s && ", m.Source, m.Place, strings.Join(m.Options, ","))
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(b.script.Process.Pid), "--mount", "unshare", "--mount", "sh", "-c",
		mounts.String()+`exec setpriv --reuid="$0" --regid="$0" --clear-groups -- "$@"`, strconv.Itoa(uid), b.client)
	cmd.Args = append(cmd.Args, arguments...)
	cmd.Env = append(os.Environ(), e.Env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewScanner(out), cmd.Start()
}

// run runs the client until it ends, and returns the numbers that it said.
func (b *bench) run(t *testing.T, e cdi.Edits, arguments ...string) map[string]float64 {
	t.Helper()
	wait := b.runs(t, e, arguments...)
	return wait()
}

// runs starts it. The function waits for it.
func (b *bench) runs(t *testing.T, e cdi.Edits, arguments ...string) func() map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd, _, out, err := b.start(ctx, 1000, e, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return func() map[string]float64 {
		defer cancel()
		said := map[string]float64{}
		var text bytes.Buffer
		for out.Scan() {
			fmt.Fprintln(&text, out.Text())
			if key, value, ok := strings.Cut(out.Text(), " "); ok {
				if n, err := strconv.ParseFloat(value, 64); err == nil {
					said[key] = n
				}
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("client %v: %v: %s", arguments, err, text.String())
		}
		return said
	}
}

// wholeGPU: what the agent says of a GPU is what CUDA says, with the daemon and without.
func (b *bench) wholeGPU(t *testing.T) {
	alone := b.run(t, cdi.Edits{}, "memory")
	size := b.run(t, cdi.Edits{}, "size")
	through := b.run(t, b.edits(t, topology.FullGPU, 0), "size")
	b.whole = int(size["multiprocessors"])
	if alone["total"] != float64(b.gpu.Memory) || through["multiprocessors"] != size["multiprocessors"] {
		t.Errorf("the agent counts %d MiB; CUDA says %v, %v, and through the daemon %v", b.gpu.Memory, alone, size, through)
	}
	eventually(t, "the inventory that the script keeps is the driver's", func() bool {
		spool := &gpu.SMI{Run: gpu.Spool(os.DirFS(b.dir+"/gpu"), time.Minute, time.Now), Proc: os.DirFS("/proc")}
		inv, err := spool.Inventory(t.Context())
		return err == nil && len(inv.GPUs) > 0 && inv.GPUs[0].UUID == b.gpu.UUID && inv.GPUs[0].Memory == b.gpu.Memory
	})
	t.Logf("%s: %d MiB, of which one process took %.0f; %d multiprocessors", b.gpu.Model, b.gpu.Memory, alone["took"], b.whole)
}

// sizes: a slice of whole steps is never given more multiprocessors than it was charged.
func (b *bench) sizes(t *testing.T) {
	var table strings.Builder
	for _, milli := range []int16{7, 10, 14, 15, 20, 25, 30, 50, 75, 100, 125, 150, 200, 250, 300, 333, 400, 500, 600, 667, 700, 750, 800, 900, 950, 980, 990, 999} {
		got := b.run(t, b.edits(t, milli, 2048), "size")["multiprocessors"]
		charged := float64(b.device.SoftCharge(milli)) * float64(b.whole) / topology.FullGPU
		fmt.Fprintf(&table, "%d:%.0f of %.1f  ", milli, got, charged)
		if got > charged || got < min(float64(milli)*float64(b.whole)/topology.FullGPU-2, charged) {
			t.Errorf("%d thousandths have %.0f multiprocessors of %d, and are charged %.1f", milli, got, b.whole, charged)
		}
	}
	t.Log(table.String())
}

// memory: a process gets no more than its slice's, and most of it.
func (b *bench) memory(t *testing.T) {
	for _, mib := range []uint32{1024, 4096, 10240, 40000} {
		got := b.run(t, b.edits(t, 250, mib), "memory")["took"]
		t.Logf("of %d MiB a process took %.0f", mib, got)
		if got > float64(mib) || got < float64(mib)-1024 {
			t.Errorf("of %d MiB a process took %.0f", mib, got)
		}
	}
}

// beside: how fast slices compute alone and beside others. What is over its share when the GPU is free is no failure of ours, but is told.
func (b *bench) beside(t *testing.T) {
	const seconds = "2"
	whole := b.run(t, b.edits(t, topology.FullGPU, 0), "compute", seconds)["rate"]
	for _, shares := range [][]int16{{500, 500}, {250, 750}, {100, 250, 250, 400}, {500, 500, 500, 500}} {
		var alone, together []string
		for _, milli := range shares {
			alone = append(alone, fmt.Sprintf("%.3f", b.run(t, b.edits(t, milli, 2048), "compute", seconds)["rate"]/whole))
		}
		var waits []func() map[string]float64
		for _, milli := range shares {
			waits = append(waits, b.runs(t, b.edits(t, milli, 2048), "compute", seconds))
		}
		for i, wait := range waits {
			share := wait()["rate"] / whole
			together = append(together, fmt.Sprintf("%.3f", share))
			if over := 1.1 * float64(shares[i]) / topology.FullGPU; share > over {
				t.Errorf("a slice of %d computes %.3f of the GPU's rate", shares[i], share)
			}
		}
		t.Logf("slices of %v: alone %v of the GPU's rate, together %v", shares, alone, together)
	}
}

// bandwidth: how fast slices copy the GPU's memory alone and beside others. MPS does not divide the bandwidth, so nothing is promised of it: the figures are told.
func (b *bench) bandwidth(t *testing.T) {
	const seconds = "2"
	for _, beside := range []string{"copy", "compute"} {
		for _, milli := range []int16{250, 500} {
			e := b.edits(t, milli, 4096)
			alone := b.run(t, e, "copy", seconds)["rate"]
			var waits []func() map[string]float64
			for range topology.FullGPU/int(milli) - 1 {
				waits = append(waits, b.runs(t, e, beside, seconds))
			}
			together := b.run(t, e, "copy", seconds)["rate"]
			for _, wait := range waits {
				wait()
			}
			t.Logf("a slice of %d copies %.0f GiB/s alone, and %.0f beside %d others that %s", milli, alone, together, len(waits), beside)
			if together <= 0 {
				t.Error("nothing was copied")
			}
		}
	}
	t.Logf("the whole GPU copies %.0f GiB/s", b.run(t, b.edits(t, topology.FullGPU, 0), "copy", seconds)["rate"])
}

// perProcess: two processes of one slice have twice of it, as the package says.
func (b *bench) perProcess(t *testing.T) {
	e := b.edits(t, 250, 4096)
	whole := b.run(t, b.edits(t, topology.FullGPU, 0), "compute", "1")["rate"]
	first, second := b.runs(t, e, "compute", "2"), b.runs(t, e, "compute", "2")
	t.Logf("two processes of a slice of 250 compute %.3f of the GPU's rate", (first()["rate"]+second()["rate"])/whole)
}

// cooperative: a process without its environment is not limited, but is served by the same daemon.
func (b *bench) cooperative(t *testing.T) {
	e := b.edits(t, 250, 4096)
	e.Env = nil
	got := b.run(t, e, "size")
	if got["multiprocessors"] != float64(b.whole) {
		t.Errorf("without its environment it has %v: then limits are more than the documentation says", got)
	}
	held := b.holds(t, 1000, e)
	eventually(t, "the daemon counts it", func() bool { s := b.state(); return s != nil && s.Clients() == 1 })
	held.ends(t)
}

// containers: slices are limited in real containers, which have process and IPC namespaces of their own.
func (b *bench) containers(t *testing.T) {
	if _, err := exec.LookPath("nvidia-ctk"); err != nil {
		t.Skipf("it needs NVIDIA's container toolkit and runc: %v", err)
	}
	h := cditest.New(t, cditest.Client("testdata/client.cu"))
	for _, milli := range []int16{250, 500, topology.FullGPU} {
		const memory = 4096
		e, err := cdi.Inject(&cdi.Node{Ours: true}, &cdi.Pod{Grant: &cdi.Grant{GPUs: []string{h.Name}, Soft: b.edits(t, milli, memory)}}, &cdi.Container{Name: "main"})
		if err != nil {
			t.Fatal(err)
		}
		c := cditest.Container{Edits: e, User: 1000, Within: []string{"nsenter", "--target", strconv.Itoa(b.script.Process.Pid), "--mount", "--"}}
		size, err := h.Run(t, c, "/bin/client", "size")
		if want := fmt.Sprintf("multiprocessors %.0f\n", b.run(t, b.edits(t, milli, memory), "size")["multiprocessors"]); err != nil || size != want {
			t.Errorf("a container with %d thousandths says %q, %v, and not %q", milli, size, err, want)
		}
		took, err := h.Run(t, c, "/bin/client", "memory")
		var total, mib uint32
		if n, scan := fmt.Sscanf(took, "total %d\ntook %d\n", &total, &mib); n != 2 || err != nil || (milli < topology.FullGPU) != (mib <= memory) {
			t.Errorf("a container with %d thousandths and %d MiB says %q, %v, %v", milli, memory, took, scan, err)
		}
		t.Logf("a container with %d thousandths: %s, took %d MiB", milli, strings.TrimSpace(size), mib)
	}
}

// holder is a client with a context.
type holder struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	held chan struct{} // closed when it has its context
}

func (b *bench) holds(t *testing.T, uid int, e cdi.Edits) *holder {
	t.Helper()
	cmd, in, out, err := b.start(t.Context(), uid, e, "hold")
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{cmd: cmd, in: in, held: make(chan struct{})}
	go func() {
		for out.Scan() {
			if out.Text() == "holds" {
				close(h.held)
				return
			}
		}
	}()
	return h
}

// has reports whether it has its context within some time.
func (h *holder) has(within time.Duration) bool {
	select {
	case <-h.held:
		return true
	case <-time.After(within):
		return false
	}
}

func (h *holder) ends(t *testing.T) {
	t.Helper()
	if err := h.in.Close(); err != nil {
		t.Error(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("a client that held a context: %v", err)
	}
}

// users: a server serves one user. Another waits without a word, and is served when the first has gone.
func (b *bench) users(t *testing.T) {
	e := b.edits(t, 250, 2048)
	first := b.holds(t, 1000, e)
	if !first.has(20 * time.Second) {
		t.Fatal("the first user is not served")
	}
	second := b.holds(t, 1001, e)
	if second.has(5 * time.Second) {
		t.Error("a second user is served beside the first: the rule of Params.Admit is stricter than this driver")
	}
	first.ends(t)
	if !second.has(30 * time.Second) {
		t.Error("the second user is not served when the first has gone")
	}
	second.ends(t)
}

// fault: what a client's fault does to another, and that the GPU serves again when both have ended.
func (b *bench) fault(t *testing.T) {
	e := b.edits(t, 250, 2048)
	other := b.holds(t, 1000, e)
	if !other.has(20 * time.Second) {
		t.Fatal("the other client is not served")
	}
	faulty, _, out, err := b.start(t.Context(), 1000, e, "fault")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for out.Scan() {
		said += out.Text() + "\n"
	}
	if err := faulty.Wait(); !errors.As(err, new(*exec.ExitError)) || !regexp.MustCompile(`error cuda\w+`).MatchString(said) {
		t.Errorf("the faulty client ended with %v: %s", err, said)
	}
	time.Sleep(2 * time.Second) // for a look of the script
	t.Logf("after a fault (%s) of one of two clients: %+v", strings.TrimSpace(said), b.state())
	_ = other.in.Close()
	t.Logf("the other client ended with %v", other.cmd.Wait())
	eventually(t, "the GPU is served again", func() bool { s := b.state(); return s != nil && s.Serves("580") == "" })
	if got := b.run(t, b.edits(t, 500, 2048), "size")["multiprocessors"]; got < 1 {
		t.Errorf("after a fault a slice has %.0f multiprocessors", got)
	}
}

// end: the script ends its daemons, and the GPU is as before.
func (b *bench) end(t *testing.T) {
	if err := b.script.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.script.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(b.params.Root, "GPU-*", "shm-*")); err != nil || len(left) > 0 || b.state() != nil {
		t.Errorf("%v, left are %v, %+v", err, left, b.state())
	}
	now := b.inventory(&gpu.SMI{Run: gpu.Command("nvidia-smi"), Proc: os.DirFS("/proc")})
	if now.Compute != b.gpu.Compute || now.MIG != b.gpu.MIG || now.Memory != b.gpu.Memory {
		t.Errorf("it is %+v, and was %+v", now, b.gpu)
	}
	eventually(t, "no process of MPS is left", func() bool {
		out, err := exec.CommandContext(t.Context(), "pgrep", "-f", "nvidia-cuda-mps").Output()
		return err != nil && len(out) == 0
	})
}
