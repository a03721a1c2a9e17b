// Package crds carries the custom resource definitions that Hilbert brings along, as the files beside it have them.
//
// Data flow: a person applies the files with kubectl; what installs them without one (the lab, tests) reads them from Files. The Go
// types are those of api/scheduling/v1alpha1 and api/node/v1alpha1.
//
// Invariants: each file holds one CustomResourceDefinition, structural; those that Hilbert writes have a status subresource. It is not a client: it installs
// nothing.
package crds

import "embed"

// Files has the definitions, one YAML document each.
//
//go:embed *.yaml
var Files embed.FS
