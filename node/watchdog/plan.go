package watchdog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"hilbert.dev/hilbert/topology"
)

const (
	// PlanVersion is the version of the plans that this package writes and reads.
	PlanVersion = 1
	// MaxPlanBytes and maxPlanKnobs bound a plan: some tens of times what a full node needs.
	MaxPlanBytes = 4 << 20
	maxPlanKnobs = 16_384
)

// Plan is what holds while the agent is silent.
type Plan struct {
	Version int `json:"version"`
	// GPUs: the node's GPUs are Hilbert's to give, so containers that ask for them by themselves are kept from them.
	GPUs bool `json:"gpus"`
	// CPUs are the CPUs of cgroups, in the order in which they are written.
	CPUs []CgroupCPUs `json:"cpus"`
}

// CgroupCPUs are the CPUs of a directory below the root of the cgroup hierarchy.
type CgroupCPUs struct {
	Cgroup string `json:"cgroup"`
	CPUs   string `json:"cpus"`
}

// Encode is the plan as ParsePlan reads it.
func (p Plan) Encode() []byte {
	p.Version = PlanVersion
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers alone
	}
	return data
}

// ParsePlan reads a plan. What it does not know, or what is no plan for pods, it refuses whole.
func ParsePlan(data []byte) (*Plan, error) {
	if len(data) > MaxPlanBytes {
		return nil, fmt.Errorf("the plan has %d bytes, want at most %d", len(data), MaxPlanBytes)
	}
	p := &Plan{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("the plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the plan: something comes after it")
	}
	if p.Version != PlanVersion {
		return nil, fmt.Errorf("the plan is of version %d, want %d: the watchdog's image is of another version than the agent's", p.Version, PlanVersion)
	}
	if len(p.CPUs) > maxPlanKnobs {
		return nil, fmt.Errorf("the plan has %d cgroups, want at most %d", len(p.CPUs), maxPlanKnobs)
	}
	seen := make(map[string]bool, len(p.CPUs))
	for i, c := range p.CPUs {
		set, err := topology.ParseCPUSet(c.CPUs)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cpus[%d].cpus: %w", i, err)
		case set.IsEmpty():
			return nil, fmt.Errorf("cpus[%d].cpus: %s would have none", i, c.Cgroup)
		case !ofPods(c.Cgroup):
			return nil, fmt.Errorf("cpus[%d].cgroup: %q is no pod's", i, c.Cgroup)
		case seen[c.Cgroup]:
			return nil, fmt.Errorf("cpus[%d].cgroup: %q stands twice", i, c.Cgroup)
		}
		seen[c.Cgroup] = true
	}
	return p, nil
}

// ofPods reports whether a directory lies below the kubelet's cgroup of pods.
func ofPods(cgroup string) bool {
	pods := false
	elements := strings.Split(cgroup, "/")
	for i, name := range elements {
		if name == "" || name == "." || name == ".." {
			return false
		}
		name = strings.TrimSuffix(name, ".slice")
		pods = pods || i < len(elements)-1 && (name == "kubepods" || strings.HasSuffix(name, "-kubepods"))
	}
	return pods
}
