package agent

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/wire"
	"hilbert.dev/hilbert/topology"
)

const (
	// watchdogName is the watchdog's service and executable in the guest: of its own, so that a signal to the agent is not for both.
	watchdogName          = "hilbert-watchdog"
	watchdogConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [watchdog]
`
	// standsIn is how soon the watchdog has carried out the plan: its 20 s of silence, and some for an emulated machine.
	standsIn = 60 * time.Second
)

// TestStoppedAgent: while the agent is stopped by a signal, no container that needs it is created, and online pods get back what they lacked. When it goes
// on, it takes over.
func TestStoppedAgent(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if out, err := r.Guest.Shell(ctx, "cp /usr/bin/hilbertd /usr/bin/"+watchdogName); err != nil {
		t.Fatal(out, err)
	}
	if err := r.Guest.WriteString(ctx, "/etc/hilbert/watchdog.yaml", watchdogConfiguration); err != nil {
		t.Fatal(err)
	}
	dog, err := r.Guest.Define(ctx, wire.ServiceSpec{Name: watchdogName, Argv: []string{"/usr/bin/" + watchdogName, "--config=/etc/hilbert/watchdog.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dog.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	shared := r.run(r.pod("shared", requests("500m")))[0]
	has, _ := r.places(shared)
	turn := func() string {
		out, err := r.Guest.Shell(ctx, "ls /run/hilbert-watchdog")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(out)
	}
	r.eventually(patience, "it is the agent's turn", func() error {
		if now := turn(); !strings.Contains(now, ".agent") || !strings.Contains(now, "plan.json") {
			return errors.New(now)
		}
		return nil
	})
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	// As after a loan: the online pod has one CPU.
	cgroup, err := r.ContainerCgroup(ctx, shared, "main")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.Guest.Shell(ctx, "echo 1 > "+cgroup+"/cpuset.cpus"); err != nil {
		t.Fatal(out, err)
	}
	own := r.create(r.dedicated("own", "2", "64Mi", spec.NUMABound))
	r.eventually(patience, "the container that needs the agent is refused", func() error {
		now, err := r.AwaitPod(ctx, own, func(*corev1.Pod) error { return nil })
		if err != nil {
			return err
		}
		if why := waits(now); !strings.Contains(why, "needs Hilbert's agent") && !strings.Contains(why, "required") {
			return fmt.Errorf("it waits: %q", why)
		}
		return nil
	})
	if _, _, err := r.sees().where(own); err == nil {
		t.Error("the dedicated pod runs while the agent is stopped")
	}
	r.eventually(standsIn, "the online pod has its CPUs back", func() error {
		now, _, err := r.sees().where(shared)
		if err != nil || now != has {
			return fmt.Errorf("it has %v, %v, want %v", now, err, has)
		}
		return nil
	})
	t.Logf("the online pod has its CPUs back after %v; %s", time.Since(stopped).Round(time.Second), turn())
	if now := turn(); !strings.Contains(now, ".watchdog") {
		t.Errorf("it is not the watchdog's turn: %s", now)
	}
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	own = r.awaitRunning(own)
	r.eventually(patience, "it is the agent's turn again", func() error {
		if now := turn(); !strings.Contains(now, ".agent") {
			return errors.New(now)
		}
		return nil
	})
	k := r.sees()
	cpus := r.asPromised(k, own, 2)
	now, _, err := k.where(shared)
	if err != nil || now.Intersection(cpus) != (topology.CPUSet{}) {
		t.Errorf("the shared pod has %v, %v, and the dedicated one %v", now, err, cpus)
	}
}
