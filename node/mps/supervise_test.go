package mps

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/gpu"
)

// The programs of the driver, as far as the script of deploy/mps.yaml uses them. They speak as the manuals say; none was recorded by us.
const (
	fakeSMI = `#!/bin/sh
case "$*" in
  "-q -x") if [ -e "$FAKE/lost" ]; then echo "Unable to determine the device handle for GPU0000:3C:00.0: Unknown Error"; exit 15; fi
    echo "<nvidia_smi_log><driver_version>590.1</driver_version><attached_gpus>1</attached_gpus><gpu id=\"0000:3B:00.0\"><uuid>GPU-a</uuid></gpu></nvidia_smi_log>" ;;
  "-q -x -i 0000:3b:00.0") echo "<nvidia_smi_log><driver_version>590.1</driver_version><attached_gpus>1</attached_gpus><gpu id=\"0000:3B:00.0\"><uuid>GPU-a</uuid></gpu></nvidia_smi_log>" ;;
  "-q -x -i 0000:3c:00.0") echo "GPU is lost"; exit 15 ;;
  "-L") echo "GPU 0: NVIDIA A100 (UUID: GPU-a)" ;;
  "topo -m") echo "GPU0 X" ;;
  "--query-gpu=uuid,mig.mode.current --format=csv,noheader") echo "GPU-a, Disabled"; echo "GPU-b, [N/A]"; echo "GPU-m, Enabled" ;;
  *) echo "changed: $*" >>"$FAKE/said"; exit 2 ;;
esac
`
	fakeControl = `#!/bin/sh
uuid=$(basename "$(dirname "$CUDA_MPS_PIPE_DIRECTORY")")
if [ "$1" = -f ]; then
  echo "start $uuid $CUDA_VISIBLE_DEVICES $2" >>"$FAKE/said"
  echo $$ >"$FAKE/$uuid.pid"
  echo "of $uuid" >/dev/shm/daemon
  exec sleep 1000
fi
[ -e "$FAKE/$uuid.pid" ] && [ ! -e "$FAKE/$uuid.mute" ] || exit 1
read -r command argument
case "$command" in
  get_default_active_thread_percentage) echo 100.0 ;;
  get_server_list) [ "$uuid" = GPU-a ] && echo 4711; true ;;
  get_server_status) if [ -e "$FAKE/fault" ]; then echo FAULT; else echo ACTIVE; fi ;;
  get_client_list) [ "$argument" = 4711 ] && echo 5001 && echo 5002 ;;
  quit) echo "quit $uuid" >>"$FAKE/said"; kill "$(cat "$FAKE/$uuid.pid")" ;;
  *) echo "changed: $command $argument" >>"$FAKE/said" ;;
esac
`
)

// deployed is the manifest of the pod.
const deployed = "../../deploy/mps.yaml"

// script is the one in a manifest, deploy/mps.yaml.
func script(t *testing.T, name string) string {
	t.Helper()
	manifest, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	inside := false
	for line := range strings.SplitSeq(string(manifest), "\n") {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case line == "  supervise.sh: |":
			inside = true
		case inside && !indented && line != "":
			inside = false
		case inside:
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// supervised runs the script with the fakes until the test ends.
func supervised(t *testing.T) (dir string, cmd *exec.Cmd) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"nvidia-smi": fakeSMI, "nvidia-cuda-mps-control": fakeControl, "supervise.sh": script(t, deployed)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{"0000:3b:00.0", "0000:3c:00.0"} {
		if err := os.MkdirAll(filepath.Join(dir, "proc/driver/nvidia/gpus", address), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// In a mount namespace of its own, with a memory that is left from before.
	cmd = exec.Command("sh", "-c", `mount --make-rshared / && mkdir -p "$MPS_ROOT/GPU-a/shm-leftover00" && mount -t tmpfs tmpfs "$MPS_ROOT/GPU-a/shm-leftover00" &&
		echo secret >"$MPS_ROOT/GPU-a/shm-leftover00/left" && exec sh "$FAKE/supervise.sh"`)
	cmd.Env = append(os.Environ(), "MPS_SHM_SIZE=1m", "PATH="+dir+":"+os.Getenv("PATH"), "FAKE="+dir, "MPS_ROOT="+dir+"/mps", "GPU_SPOOL="+dir+"/gpu", "PROC="+dir+"/proc", "PERIOD=0.1")
	cmd.SysProcAttr = ownMounts()
	cmd.SysProcAttr.Setpgid = true
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	switch err := cmd.Start(); {
	case errors.Is(err, os.ErrPermission):
		t.Skipf("no mount namespace can be made here: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return dir, cmd
}

// inside runs a command where the script runs, and returns what it prints.
func inside(t *testing.T, script *exec.Cmd, command string) (string, error) {
	t.Helper()
	out, err := nsenter(t, script, command).CombinedOutput()
	return string(out), err
}

func nsenter(t *testing.T, script *exec.Cmd, command string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(script.Process.Pid), "--user", "--mount", "--preserve-credentials", "sh", "-c", command)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("not so: " + what)
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSupervise runs the pod's script: what it says is what the agent reads, a daemon that ends is started again, and nothing changes a setting.
func TestSupervise(t *testing.T) {
	dir, cmd := supervised(t)
	p := Defaults()
	root := os.DirFS(filepath.Join(dir, "mps"))
	state := func(uuid string) *State { s, _ := p.ReadState(root, uuid, time.Now()); return s }
	eventually(t, "both GPUs without MIG are served", func() bool {
		a, b := state("GPU-a"), state("GPU-b")
		return a != nil && b != nil && a.Clients() == 2 && a.Serves("590.1") == "" && len(b.Servers) == 0
	})
	driver := &gpu.SMI{Run: gpu.Spool(os.DirFS(filepath.Join(dir, "gpu")), time.Minute, time.Now), Proc: os.DirFS(filepath.Join(dir, "proc"))}
	gpus := func() []gpu.GPU {
		inv, err := driver.Inventory(t.Context())
		if err != nil {
			return nil
		}
		return inv.GPUs
	}
	eventually(t, "the agent reads the inventory", func() bool { g := gpus(); return len(g) == 1 && g[0].UUID == "GPU-a" })
	touch(t, filepath.Join(dir, "lost"))
	eventually(t, "one that is lost does not hide the other", func() bool {
		g := gpus()
		return len(g) == 2 && g[0].UUID == "GPU-a" && g[1].Lost != ""
	})
	touch(t, filepath.Join(dir, "fault"))
	eventually(t, "a fault is told", func() bool { s := state("GPU-a"); return s != nil && s.Serves("590.1") != "" })
	touch(t, filepath.Join(dir, "GPU-b.mute"))
	eventually(t, "a daemon that does not answer has no state", func() bool { return state("GPU-b") == nil && state("GPU-a") != nil })
	said := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "GPU-a.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", strings.TrimSpace(string(pid))).Run(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a daemon that ended is started again", func() bool { return strings.Count(said(), "start GPU-a GPU-a") == 2 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if state("GPU-a") != nil || !strings.Contains(said(), "quit GPU-a") {
		t.Errorf("a daemon is left: %s", said())
	}
	if strings.Contains(said(), "GPU-m") || strings.Contains(said(), "changed") || strings.Contains(said(), "-M") {
		t.Errorf("it did what it must not: %s", said())
	}
}

// TestSuperviseShares: each daemon has a memory of bounded size as its /dev/shm, and no other has it. It stays while some container has it; when all are gone, the
// daemon starts with a new one, in which nothing is. What was left before the script began is removed, and so is all when it ends.
func TestSuperviseShares(t *testing.T) {
	dir, cmd := supervised(t)
	p := Defaults()
	root := os.DirFS(filepath.Join(dir, "mps"))
	shared := func(uuid string) Shared {
		s, err := p.ReadState(root, uuid, time.Now())
		if err != nil {
			return Shared{}
		}
		return Shared{Name: s.Shared.Name, Used: s.Shared.Used}
	}
	eventually(t, "both GPUs are served", func() bool { return shared("GPU-a").Name != "" && shared("GPU-b").Name != "" })
	first, beside := shared("GPU-a"), shared("GPU-b")
	if first.Used || beside.Used || first.Name == beside.Name {
		t.Fatalf("they begin with %+v and %+v", first, beside)
	}
	place := func(uuid, name string) string { return filepath.Join(dir, "mps", uuid, name) }
	for uuid, name := range map[string]string{"GPU-a": first.Name, "GPU-b": beside.Name} {
		out, err := inside(t, cmd, "ls "+place(uuid, "")+"; cat "+place(uuid, name)+"/daemon")
		if err != nil || !strings.HasSuffix(out, "of "+uuid+"\n") || strings.Contains(out, "leftover") {
			t.Errorf("the memory of %s: %v, %s", uuid, err, out)
		}
	}
	for what, command := range map[string]string{"bytes": "head -c 2m /dev/zero >x", "files": "for i in $(seq 5000); do : >file$i || exit 1; done 2>&1"} {
		if out, err := inside(t, cmd, "cd "+place("GPU-a", first.Name)+"; "+command); err == nil || !strings.Contains(out, "No space left on device") {
			t.Errorf("%s have no bound: %v, %.200s", what, err, out)
		}
	}
	client := nsenter(t, cmd, `exec unshare --mount sh -c 'mount --bind `+place("GPU-a", first.Name)+` /dev/shm && rm -f /dev/shm/x /dev/shm/file* && echo secret >/dev/shm/left && exec sleep 1000'`)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is seen that a container has it", func() bool { return shared("GPU-a").Used })
	for range 5 { // looks
		touched, err := os.Stat(filepath.Join(dir, "mps", "alive"))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it looks again", func() bool {
			again, err := os.Stat(filepath.Join(dir, "mps", "alive"))
			return err == nil && again.ModTime().After(touched.ModTime())
		})
	}
	if now := shared("GPU-a"); now.Name != first.Name {
		t.Fatalf("a container has %s, and the daemon %+v", first.Name, now)
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = client.Wait() // it was killed
	eventually(t, "when it is gone there is another", func() bool { now := shared("GPU-a"); return now.Name != "" && now.Name != first.Name && !now.Used })
	if out, err := inside(t, cmd, "ls "+place("GPU-a", "")+"; ls "+place("GPU-a", shared("GPU-a").Name)); err != nil || strings.Contains(out, first.Name) || strings.Contains(out, "left") {
		t.Errorf("something is left: %v, %s", err, out)
	}
	if now := shared("GPU-b"); now != beside {
		t.Errorf("the other GPU's memory, which nobody used, is %+v, and was %+v", now, beside)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "mps", "GPU-*", "shm-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, left are %v", err, left)
	}
}

// TestSuperviseWithoutDriver: a container that has not been given the driver's programs ends, so that it is made again.
func TestSuperviseWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "supervise.sh")
	if err := os.WriteFile(name, []byte(script(t, deployed)), 0o600); err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, filepath.Join(dir, "sleep")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sh, name)
	cmd.Env = []string{"PATH=" + dir, "MPS_ROOT=" + dir + "/mps", "GPU_SPOOL=" + dir + "/gpu", "PERIOD=0.1"}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "nvidia-smi is not in this container") {
		t.Errorf("%v: %s", err, out)
	}
}
