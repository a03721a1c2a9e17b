package facts

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Node is a machine as placement sees it. It is immutable: a change is a new Node.
type Node struct {
	Name          string
	Labels        map[string]string
	Taints        []Taint
	Unschedulable bool
	// Allocatable is what pods may request in sum; GPUs are not in it, they are in GPU.
	Allocatable []resource.Quantity
	GPU         topology.Shape
	// Images that the node has, sorted by name.
	Images []Image
	// Features that the node declares, sorted.
	Features []string
	// Migrated are the in-tree plugins of volumes that CSI drivers serve on the node, sorted. Its CSINode says so, and the ledger fills it in.
	Migrated []string
}

// Taint repels pods from a node.
type Taint struct {
	Key, Value string
	Effect     TaintEffect
}

// Effect is what a taint does to pods that do not tolerate it.
type TaintEffect uint8

// The taint effects of Kubernetes.
const (
	NoSchedule TaintEffect = iota + 1
	PreferNoSchedule
	NoExecute
)

// SameNode reports whether two observations of a node differ in nothing that placement looks at.
func SameNode(a, b *Node) bool { return slices.Equal(a.Images, b.Images) && SameButImages(a, b) }

// SameButImages reports whether two observations of a node differ in their images at most.
func SameButImages(a, b *Node) bool {
	return slices.Equal(a.Features, b.Features) && slices.Equal(a.Migrated, b.Migrated) && a.Unschedulable == b.Unschedulable && a.GPU == b.GPU && slices.Equal(a.Allocatable, b.Allocatable) &&
		slices.Equal(a.Taints, b.Taints) && maps.Equal(a.Labels, b.Labels)
}

// Untolerated returns the first taint that keeps pods with these tolerations off the node, nil for none.
func Untolerated(n *Node, tolerations []Toleration) *Taint {
	for i := range n.Taints {
		if taint := &n.Taints[i]; taint.Effect != PreferNoSchedule && !Tolerated(tolerations, taint) {
			return taint
		}
	}
	return nil
}

// Tolerated reports whether one of the tolerations covers the taint.
func Tolerated(tolerations []Toleration, taint *Taint) bool {
	for i := range tolerations {
		if tolerations[i].Tolerates(taint) {
			return true
		}
	}
	return false
}

// Image is a container image that a node has.
type Image struct {
	Name string // as the node reports it; each of its names is an Image
	Size int64  // bytes
}

// HostnameKey is the node label that names the machine.
const HostnameKey = "kubernetes.io/hostname"
