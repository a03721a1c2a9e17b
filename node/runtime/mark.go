package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/topology"
)

// Mark is the annotation that each container gets which the agent has adjusted. The container runtime keeps it with the container, so three parties read
// it: the watchdog's plugin, which comes after the agent's and refuses containers that need the agent and have no mark; the agent before the container's
// start, which compares what it gave with what the container has; and an agent that starts anew, which so knows what pods hold of devices, whether or not
// its checkpoint was on disk.
type Mark struct {
	// Container is the ID of the container that it was made for: nobody knows it beforehand.
	Container string `json:"container"`
	// GPUs and NICs are what the pod holds, as the annotations of its Binding have it.
	GPUs string `json:"gpus,omitempty"`
	NICs string `json:"nics,omitempty"`
	// CDI are the full names of the CDI devices that the container was given, and Env the variables, "NAME=value".
	CDI []string `json:"cdi,omitempty"`
	Env []string `json:"env,omitempty"`
	// Score is the oom_score_adj that the kubelet gave the container, where the agent has put its own in place of it: the kubelet made it of the memory request,
	// which nobody else tells. nil: it still has that.
	Score *int `json:"score,omitempty"`
	// Resources is what the pod holds of plugins' resources, without what its containers get.
	Resources []*plugin.Holding `json:"resources,omitempty"`
}

// maxMark bounds what is read of a mark: a hundred times what one has.
const maxMark = 64 << 10

func MarkOf(container string, held *topology.Grant, given *cdi.Edits) Mark {
	m := Mark{Container: container, CDI: given.Devices, Env: given.Env}
	if held.GPUs != 0 {
		m.GPUs = held.GPUText()
	}
	if held.NICs != 0 {
		m.NICs = held.NICText()
	}
	return m
}

// String is the annotation's value.
func (m Mark) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings alone
	}
	return string(text)
}

// ParseMark reads a container's mark. False: it has none, or one that was not made for it.
func ParseMark(text, container string) (m Mark, ok bool) {
	if text == "" || len(text) > maxMark || container == "" {
		return Mark{}, false
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(&m); err != nil || m.Container != container {
		return Mark{}, false
	}
	return m, true
}

// Promise puts what a pod really holds of devices in place of what was promised.
func (m *Mark) Promise(annotations map[string]string) map[string]string {
	if m.GPUs == "" && m.NICs == "" {
		return annotations
	}
	out := make(map[string]string, len(annotations)+2)
	maps.Copy(out, annotations)
	for key, value := range map[string]string{spec.AnnotationGPUs: m.GPUs, spec.AnnotationNICs: m.NICs} {
		if delete(out, key); value != "" {
			out[key] = value
		}
	}
	return out
}

// Check says what a container lacks of what it was given. files are those that a CDI device has; nil: not known.
func (m *Mark) Check(c *Container, files func(device string) []string) error {
	has := make(map[string]string, len(c.Env))
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		has[name] = value
	}
	for _, variable := range m.Env {
		name, value, _ := strings.Cut(variable, "=")
		if got, ok := has[name]; !ok || got != value {
			return fmt.Errorf("its variable %s is %q, and %q was given", name, got, value)
		}
	}
	there := make(map[string]bool, len(c.Devices))
	for _, file := range c.Devices {
		there[file] = true
	}
	for _, device := range m.CDI {
		for _, file := range files(device) {
			if !there[file] {
				return fmt.Errorf("it does not have %s of device %s", file, device)
			}
		}
	}
	return nil
}

// Observers is the namespace whose pods may see all GPUs without a grant: a cluster's policies say which pods may run there.
const Observers = "hilbert-system"

// NeedsAgent reports whether a container must not run unless the agent has adjusted it: its pod has CPUs, memory or devices of its own by promise, or has
// to yield. ours: the node's GPUs are Hilbert's to give, so that what asks for them by itself must be kept from them too. Pods of level system_cores need
// nobody: the agent itself is one.
func NeedsAgent(s *Sandbox, c *Container, ours bool) bool {
	qos, _ := spec.QoSOf(s.Labels, s.Annotations)
	if qos.Level == spec.QoSDedicated || qos.Level == spec.QoSReclaimed || PlacedHere(s) {
		return true
	}
	box := cdi.Container{Env: c.Env, Mounts: c.Mounts}
	return ours && s.Namespace != Observers && box.Asks()
}

// PlacedHere reports whether the Binding says that Hilbert promised the pod something of this node.
func PlacedHere(s *Sandbox) bool {
	for _, key := range []string{spec.AnnotationNUMANodes, spec.AnnotationGPUs, spec.AnnotationNICs, spec.AnnotationReclaimed, spec.AnnotationResources, spec.AnnotationResourceNUMANodes} {
		if s.Annotations[key] != "" {
			return true
		}
	}
	return false
}
