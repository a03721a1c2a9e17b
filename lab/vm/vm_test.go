package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/vm/parts"
	"hilbert.dev/hilbert/lab/vm/wire"
)

// TestNoAnswer: a guest that never answers is killed and booted again, and given up at last with nothing left of it; one whose QEMU ends
// says why.
func TestNoAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
		timeout      time.Duration
	}{
		"hangs": {`echo $$ >>"$PIDS"; exec sleep 600`, "no answer after 300ms", 300 * time.Millisecond},
		"ends":  {`echo $$ >>"$PIDS"; echo no such machine >&2; exit 1`, "QEMU ended: no such machine", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			pids := filepath.Join(t.TempDir(), "pids")
			t.Setenv("PIDS", pids)
			_, err := Boot(t.Context(), Options{
				Parts:       &parts.Parts{QEMU: []string{"/bin/sh", "-c", test.script}},
				BootTimeout: test.timeout,
			})
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no guest after %d boots", boots)) || strings.Count(err.Error(), test.want) != boots {
				t.Errorf("got %v\nwant %d times %q", err, boots, test.want)
			}
			started, err := os.ReadFile(pids)
			if n := len(strings.Fields(string(started))); err != nil || n > boots || n < boots && name == "ends" { // one that hangs may be killed before it has said so
				t.Errorf("started %q, %v, want %d processes", started, err, boots)
			}
			for _, pid := range strings.Fields(string(started)) {
				if _, err := os.Stat("/proc/" + pid); err == nil {
					t.Errorf("process %s is left", pid)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestGivenUp: a caller who gives up is not made to wait for further boots.
func TestGivenUp(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
	defer cancel()
	_, err := Boot(ctx, Options{Parts: &parts.Parts{QEMU: []string{"/bin/sh", "-c", "exec sleep 600"}}})
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "after 1 boots") {
		t.Errorf("got %v, want the caller's cause after one boot", err)
	}
}

// TestMachine: a guest has the processors and NUMA nodes that were asked for, and eight and two without a word.
func TestMachine(t *testing.T) {
	for name, test := range map[string]struct {
		cpus, nodes int
		want        []string
		never       string
	}{
		"one":         {1, 1, []string{"-smp 1,sockets=1,cores=1,threads=1", "thread=single", "nodeid=0,cpus=0-0"}, "thread=multi"},
		"default":     {CPUs, Nodes, []string{"thread=multi", "-smp 8,sockets=2,cores=4,threads=1", "-m 4096M", "cpus=0-3,memdev=mem0", "cpus=4-7,memdev=mem1", "dist,src=1,dst=0"}, "mem2"},
		"one of two":  {2, 1, []string{"-smp 2,sockets=1,cores=2,threads=1", "-m 2048M", "nodeid=0,cpus=0-1,memdev=mem0", "bus_nr=64,numa_node=0"}, "dist,"},
		"three nodes": {3, 3, []string{"-smp 3,sockets=3,cores=1,threads=1", "-m 6144M", "nodeid=2,cpus=2-2,memdev=mem2", "dist,src=2,dst=1"}, "mem3"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(machine(Options{Parts: &parts.Parts{}, CPUs: test.cpus, Nodes: test.nodes}, nil), " ")
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s\nlacks %q", got, want)
				}
			}
			if strings.Contains(got, test.never) {
				t.Errorf("%s\nhas %q", got, test.never)
			}
		})
	}
}

// TestOdd: processors that cannot be divided among the NUMA nodes are an error, before anything is started.
func TestOdd(t *testing.T) {
	if _, err := Boot(t.Context(), Options{CPUs: 3, Nodes: 2}); err == nil || !strings.Contains(err.Error(), "3 CPUs cannot be divided among 2") {
		t.Errorf("got %v", err)
	}
}

// TestClock: a guest whose time runs at another pace than the host's is found out.
func TestClock(t *testing.T) {
	for name, test := range map[string]struct {
		pace float64
		ok   bool
	}{"right": {1, true}, "a bit off": {1.2, true}, "too fast": {16, false}, "stands still": {0, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"uptimeMs": %d}`, int64(test.pace*float64(time.Since(begin).Milliseconds())))
			}))
			defer server.Close()
			g := &Guest{client: newClient(strings.TrimPrefix(server.URL, "http://"))}
			if err := g.checkClock(t.Context()); (err == nil) != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTimers: a guest in which a processor does not wake who sleeps on it is not taken, and the error says which do.
func TestTimers(t *testing.T) {
	for name, test := range map[string]struct {
		busybox string // what follows "taskset -c $3"
		want    string
		within  time.Duration // it ends by itself within a minute, or hangs
	}{
		"all wake":       {"exit 0", "", time.Minute},
		"one does not":   {"if [ $3 = 2 ]; then exec sleep 60; fi", `CPUs ["0" "1"] alone: `, 4 * time.Second},
		"one is missing": {"if [ $3 = 3 ]; then exit 1; fi", `CPUs ["0" "1" "2"] alone: `, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\nif [ $1 = seq ]; then exec seq $2 $3; fi\n" + test.busybox + "\n"
			if err := os.WriteFile(filepath.Join(dir, "busybox"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var asked wire.ExecRequest
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				ctx, cancel := context.WithTimeout(r.Context(), time.Duration(asked.TimeoutMS)*time.Millisecond)
				defer cancel()
				command := exec.CommandContext(ctx, asked.Argv[0], asked.Argv[1:]...)
				command.Env, command.WaitDelay = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, time.Millisecond
				said, err := command.Output()
				answer := wire.ExecAnswer{Stdout: said}
				if err != nil {
					answer.Status = 1
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), test.within)
			defer cancel()
			g := &Guest{options: Options{CPUs: 4}, client: newClient(strings.TrimPrefix(server.URL, "http://"))}
			if err := g.checkTimers(ctx); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
