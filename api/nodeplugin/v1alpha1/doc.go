// Package v1alpha1 is the protocol between Hilbert's node agent and plugins in processes of their own, as gRPC.
//
// Data flow: a plugin serves NodePlugin on a unix socket in the agent's plugin directory, and the agent calls. nodeplugin.proto is the definition, for plugins in any
// language; the Go files are made of it by make gen. docs/how-to/write-a-node-plugin.md shows how a plugin is written.
//
// Invariants: only the agent's package node/plugin and plugins import it. Fields are added, never changed: a message that means something else gets another
// protocol number.
package v1alpha1

//go:generate go run -C ../../../tools/generate ./proto ../../api/nodeplugin/v1alpha1 nodeplugin.proto ../../api/nodeplugin/v1alpha1

// Protocol is the number of what this package says in words.
const Protocol = 1
