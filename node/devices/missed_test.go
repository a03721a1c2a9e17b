package devices

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/runtime"
)

// TestEveryMissedContainerIsJudged: on a node where no agent was for a while, pods of many containers do not hide another one that has what is not its pod's.
func TestEveryMissedContainerIsJudged(t *testing.T) {
	t.Parallel()
	n := &controller.Node{Runtime: controller.Runtime{Name: "containerd"}}
	m := &Missed{node: n}
	var containers []runtime.Container
	for i := range 1500 {
		containers = append(containers, runtime.Container{ID: fmt.Sprint(i), Sandbox: "s"})
	}
	m.Note([]runtime.Sandbox{{ID: "s"}}, containers)
	if len(m.waiting) != len(containers) {
		t.Errorf("%d of %d containers are looked at", len(m.waiting), len(containers))
	}
}
