package crash

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

// asHilbertd in the environment makes this test binary a hilbertd; its value is the configuration file.
const asHilbertd = "HILBERT_CRASH_TEST_HILBERTD"

// leaseSeconds is as short as whole seconds and a margin for a busy machine allow.
const leaseSeconds = 3

const configuration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaseDuration: %ds, renewDeadline: 2s, retryPeriod: 400ms}
server: {bindAddress: "127.0.0.1:0"}
scheduling:
  backoff: {initial: 100ms, max: 1s}
  binding: {writeTimeout: 1s}
`

func TestMain(m *testing.M) {
	if config := os.Getenv(asHilbertd); config != "" {
		os.Exit(runHilbertd(config))
	}
	if options := os.Getenv(asAPIServer); options != "" {
		os.Exit(runAPIServer(options))
	}
	os.Exit(m.Run())
}

func runHilbertd(config string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := configfile.Load(config)
	if err == nil {
		err = daemon.Run(ctx, c, daemon.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hilbertd is one process.
type hilbertd struct {
	name     string
	cmd      *exec.Cmd
	identity chan string // gets the name under which it campaigns, from its log
	known    string
	log      *os.File
	ended    chan struct{}
}

// identityInLog finds what hilbertd says of itself when it starts.
var identityInLog = regexp.MustCompile(`msg="hilbertd started".* identity=(\S+)`)

// startHilbertd starts a process that logs to dir.
func startHilbertd(dir, name, config string) (*hilbertd, error) {
	return startProcess(dir, name, asHilbertd+"="+config)
}

// startProcess starts this binary again, as what a variable of its environment says.
func startProcess(dir, name, variable string) (*hilbertd, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	d := &hilbertd{name: name, identity: make(chan string, 1), log: log, ended: make(chan struct{})}
	d.cmd = exec.Command(os.Args[0])
	d.cmd.Env = append(os.Environ(), variable)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go d.follow(stderr)
	return d, nil
}

// follow copies the log and looks for the identity.
func (d *hilbertd) follow(stderr io.Reader) {
	defer close(d.ended)
	defer d.log.Close()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(d.log, lines.Text())
		if found := identityInLog.FindStringSubmatch(lines.Text()); found != nil {
			select {
			case d.identity <- found[1]:
			default:
			}
		}
	}
	_ = d.cmd.Wait() // it was killed
}

// id waits until the process has said who it is.
func (d *hilbertd) id() (string, error) {
	if d.known != "" {
		return d.known, nil
	}
	select {
	case d.known = <-d.identity:
		return d.known, nil
	case <-d.ended:
		return "", d.endedEarly()
	case <-time.After(patience):
		return "", fmt.Errorf("%s has not said who it is within %s, see %s", d.name, patience, d.log.Name())
	}
}

func (d *hilbertd) endedEarly() error {
	return fmt.Errorf("%s ended by itself, see %s", d.name, d.log.Name())
}

func (d *hilbertd) signal(s os.Signal) error {
	if err := d.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s to %s: %w", s, d.name, err)
	}
	return nil
}

// kill ends the process as a crash would.
func (d *hilbertd) kill() error {
	err := d.signal(syscall.SIGKILL)
	<-d.ended
	return err
}
