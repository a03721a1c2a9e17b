package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// systemdPath is systemd's where the root disk is of the profile that has it.
	systemdPath = "/lib/systemd/systemd"
	// problemsFile carries what failed at the start to the service that reports it to the host.
	problemsFile = "/run/hilbert-vm.problems"
	// unitDir has the units of services that the host defines; it is empty after a boot.
	unitDir = "/run/systemd/system/"
)

// hasSystemd reports whether the root disk brings a first process of its own.
func hasSystemd() bool {
	_, err := os.Stat(systemdPath)
	return err == nil
}

// becomeSystemd gives the place of the first process to systemd. It returns only where that fails.
func becomeSystemd(problems []string) error {
	if err := os.WriteFile(problemsFile, []byte(strings.Join(problems, "\n")), 0o644); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", systemdPath, unix.Exec(systemdPath, []string{systemdPath}, environment))
}

// savedProblems are those of the start, as the first process left them.
func savedProblems() ([]string, error) {
	text, err := os.ReadFile(problemsFile)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(string(text), "\n"), nil
}

// units keeps services running by way of systemd.
type units struct {
	mu      sync.Mutex
	stopped map[string]bool // services that the host defined, and whether it has asked them to stop
}

func newUnits() *units { return &units{stopped: map[string]bool{}} }

// define writes a service's unit and starts it unless it runs.
func (u *units) define(r *http.Request) (any, error) {
	spec, err := decode[wire.ServiceSpec](r)
	if err != nil {
		return nil, err
	}
	if spec.Name == "" || strings.Contains(spec.Name, "/") || len(spec.Argv) == 0 {
		return nil, errors.New("a service needs a name and a command")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped[spec.Name] = false
	if err := os.WriteFile(unitDir+spec.Name+".service", []byte(unit(spec)), 0o644); err != nil {
		return nil, err
	}
	if _, err := systemctl("daemon-reload"); err != nil {
		return nil, err
	}
	_, err = systemctl("start", spec.Name)
	return struct{}{}, err
}

// unit is a service as systemd wants it said: alike to what the supervisor does where there is no systemd. Only the service's own process
// is ended with it: a container outlives its runtime.
func unit(spec wire.ServiceSpec) string {
	restart, delay := "always", restartDelay.Milliseconds()
	if spec.Once {
		restart = "no"
	}
	if spec.RestartMS > 0 {
		delay = spec.RestartMS
	}
	argv := make([]string, len(spec.Argv))
	for i, word := range spec.Argv {
		argv[i] = strings.ReplaceAll(unitWord(word), "$", "$$")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[Unit]\nDescription=%s, for the host\nStartLimitIntervalSec=0\n\n[Service]\nExecStart=%s\n", spec.Name, strings.Join(argv, " "))
	for _, setting := range append(slices.Clone(environment), spec.Env...) {
		fmt.Fprintf(&b, "Environment=%s\n", unitWord(setting))
	}
	log := "append:/var/log/" + spec.Name + ".log"
	fmt.Fprintf(&b, "Restart=%s\nRestartSec=%dms\nKillMode=process\nTimeoutStopSec=%ds\nTasksMax=infinity\nLimitNOFILE=1048576\nStandardOutput=%s\nStandardError=%s\n",
		restart, delay, int(stopTimeout.Seconds()), log, log)
	return b.String()
}

// unitWord quotes one word of a setting.
func unitWord(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\n", `\n`).Replace(word) + `"`
}

func (u *units) order(r *http.Request) (any, error) {
	name, do := r.FormValue("name"), r.FormValue("do")
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.stopped[name]; !known {
		return nil, fmt.Errorf("no service %q: %w", name, fs.ErrNotExist)
	}
	if !slices.Contains([]string{"start", "stop", "restart"}, do) {
		return nil, fmt.Errorf("cannot %q a service: start, stop or restart", do)
	}
	u.stopped[name] = do == "stop"
	_, err := systemctl(do, name)
	return struct{}{}, err
}

func (u *units) states(*http.Request) (any, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]wire.ServiceState, 0, len(u.stopped))
	for _, name := range slices.Sorted(maps.Keys(u.stopped)) {
		text, err := systemctl("show", "--property=MainPID,NRestarts,ExecMainCode,ExecMainStatus", name+".service")
		if err != nil {
			return nil, err
		}
		state := unitState(name, text)
		state.Stopped = u.stopped[name]
		out = append(out, state)
	}
	return out, nil
}

// unitState reads what systemctl shows of a service.
func unitState(name, shown string) wire.ServiceState {
	const exited = 1 // waitid's CLD_EXITED; the others are signals
	state, code := wire.ServiceState{Name: name}, 0
	for line := range strings.Lines(shown) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		number, _ := strconv.Atoi(value) // systemd's numbers are numbers
		switch key {
		case "MainPID":
			state.PID = number
		case "NRestarts":
			state.Starts = number + 1
		case "ExecMainCode":
			code = number
		case "ExecMainStatus":
			state.Status = number
		}
	}
	if code > exited {
		state.Status += 128
	}
	return state
}

func systemctl(args ...string) (string, error) {
	command := exec.Command("systemctl", args...)
	var failure strings.Builder
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return string(out), nil
}
