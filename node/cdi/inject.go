package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	visible = "NVIDIA_VISIBLE_DEVICES"
	void    = "void"
	// byMount is where a container with mounts there asks NVIDIA's runtime for GPUs.
	byMount = "/var/run/nvidia-container-devices"
)

// Node is what Inject must know of the node.
type Node struct {
	// Ours: we give the GPUs out, or pods hold GPUs that we gave. Otherwise containers without a grant are left alone.
	Ours bool
	// All is the CDI device of all GPUs, for observers; empty: there is none, or another party gives the GPUs out and serves observers. While a node's GPUs
	// have no owner, observers are served: one of them loads the driver, without which the GPUs would never be ours.
	All string
}

// Pod is what Inject must know of a pod.
type Pod struct {
	// Grant is what the pod holds; nil: nothing.
	Grant *Grant
	// Asking are the names of its containers that ask for what it holds; nil: not known. Then all of them get it: a grant is the pod's, its
	// containers trust each other, and which of them asks is not said to the runtime.
	Asking []string
	// Observer: the pod watches or serves the GPUs for others, as monitoring and the MPS daemon do, and may see all of them without a grant.
	Observer bool
}

// Grant is what a pod holds, by the names of CDI devices.
type Grant struct {
	GPUs  []string // whole ones, instances, or the one that a slice is of
	Cards []string // RDMA cards and virtual functions
	// Soft is what a slice needs to be limited; empty for all else.
	Soft Edits
}

// Container is one container that is about to be made.
type Container struct {
	Name string
	Env  []string // "NAME=value", that of the image included
	// Mounts are the places of its mounts.
	Mounts []string
}

// Edits are what a container gets.
type Edits struct {
	Devices []string // full names of CDI devices
	Env     []string // "NAME=value", in place of a variable of that name
	Mounts  []Mount
	Without []string // places of mounts that it does not get
}

// Mount is a directory of the node in a container.
type Mount struct {
	Source, Place string
	Options       []string
}

// ErrTwice is a variable that a container has twice, and that must have the value that Inject gives it.
var ErrTwice = errors.New("the container's environment has it twice, in its image or in its pod; have it once, or not at all")

// Inject is what a container gets of a node's GPUs and cards. Init containers are containers like others: they run one after another, before the
// pod's other ones, so they hold nothing twice. The error wraps ErrTwice: a runtime replaces one of the values, and which one NVIDIA's runtime reads is not
// known, so that such a container could reach GPUs that its pod does not hold.
func Inject(n *Node, p *Pod, c *Container) (Edits, error) {
	e := edits(n, p, c)
	for _, variable := range e.Env {
		name, _, _ := strings.Cut(variable, "=")
		if c.count(name) > 1 {
			return Edits{}, fmt.Errorf("%s: %w", name, ErrTwice)
		}
	}
	return e, nil
}

// count is how often a variable is in the container's environment.
func (c *Container) count(name string) (times int) {
	for _, variable := range c.Env {
		if has, _, _ := strings.Cut(variable, "="); has == name {
			times++
		}
	}
	return times
}

func edits(n *Node, p *Pod, c *Container) Edits {
	granted := p.Grant != nil && (p.Asking == nil || slices.Contains(p.Asking, c.Name))
	switch {
	case granted:
		e := Edits{Devices: slices.Concat(p.Grant.GPUs, p.Grant.Cards)}
		if len(p.Grant.GPUs) > 0 || n.Ours {
			// NVIDIA's runtime, where it is the default, must not add what the image asks for to what CDI brings.
			e.hide(c)
		}
		e.Env = append(e.Env, p.Grant.Soft.Env...)
		e.Mounts = p.Grant.Soft.Mounts
		return e
	case p.Observer && n.All != "" && c.asks():
		e := Edits{Devices: []string{n.All}}
		e.hide(c)
		return e
	case p.Observer, !n.Ours && p.Grant == nil:
		return Edits{} // what it asks for, if the runtime is NVIDIA's
	}
	var e Edits
	e.hide(c)
	return e
}

// hide keeps a container from all GPUs that it is not given by CDI, in the two ways by which NVIDIA's runtime is asked. The variable is set even where
// there is none: images from before it are given every GPU.
func (e *Edits) hide(c *Container) {
	e.Env = append(e.Env, visible+"="+void)
	for _, place := range c.Mounts {
		if clean := path.Clean("/" + place); clean == byMount || strings.HasPrefix(clean, byMount+"/") {
			e.Without = append(e.Without, place)
		}
	}
}

// Asks reports whether a container wants GPUs of NVIDIA's runtime, by its environment or by a mount.
func (c *Container) Asks() bool {
	var e Edits
	e.hide(c)
	return c.asks() || len(e.Without) > 0
}

// asks reports whether it does by its environment.
func (c *Container) asks() bool {
	for _, variable := range c.Env {
		if value, ok := strings.CutPrefix(variable, visible+"="); ok && value != "" && value != void && value != "none" {
			return true
		}
	}
	return false
}
