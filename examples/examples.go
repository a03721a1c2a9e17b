// Package examples holds the manifests of this directory for programs that apply them: the demo of the lab is one of them, and must
// work from the binary alone.
//
// Invariants: what is embedded is exactly what the files say, real Kubernetes objects that `kubectl apply -f` takes as they are.
//
// It is not a template engine, and knows nothing about the objects.
package examples

import _ "embed"

// Demo is demo.yaml: a cluster's online services and offline jobs, written for 1,000 nodes.
//
//go:embed demo.yaml
var Demo []byte

// Node is node.yaml: a namespace with a pod of each QoS level.
//
//go:embed node.yaml
var Node []byte

// NodePlugin is node-plugin/daemonset.yaml: the example of a plugin for the node's agent, in a pod of each node.
//
//go:embed node-plugin/daemonset.yaml
var NodePlugin []byte
