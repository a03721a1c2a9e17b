// Package uninstall carries the DaemonSet that gives back what agents have set on their nodes, as the file beside it has it.
//
// Data flow: a person applies the file with kubectl, or hilbert uninstall takes it with the image, configuration and nodes of the agent that runs. The chart has the same
// DaemonSet as a template.
//
// Invariants: it has no account of the API server, and asks nothing of it; a pod of it is ready when its node is as if it had never had an agent. It is not a client:
// it installs nothing.
package uninstall

import _ "embed" // the DaemonSet

// Cleanup is the manifest.
//
//go:embed cleanup.yaml
var Cleanup []byte
