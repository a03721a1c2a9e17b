package node

import (
	"fmt"
	"testing"
)

// TestEveryMissedContainerIsJudged: on a node where no agent was for a while, pods of many containers do not hide another one that has what is not its pod's.
func TestEveryMissedContainerIsJudged(t *testing.T) {
	t.Parallel()
	n := &nodeState{runtime: runtimeState{name: "containerd"}}
	m := &missedContainers{node: n}
	var containers []Container
	for i := range 1500 {
		containers = append(containers, Container{ID: fmt.Sprint(i), Sandbox: "s"})
	}
	m.note([]Sandbox{{ID: "s"}}, containers)
	if len(m.waiting) != len(containers) {
		t.Errorf("%d of %d containers are looked at", len(m.waiting), len(containers))
	}
}
