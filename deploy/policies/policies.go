// Package policies carries the admission policies that keep Hilbert's words true, as the files beside it have them.
//
// Data flow: a person applies the files with kubectl; what installs them without one (the lab, tests) reads them from Files. What they
// refuse, and why, is told in docs/reference/policies.md.
//
// Invariants: each file holds policies and their bindings, all CEL, no webhook; every name starts with "hilbert-". The one account that
// may write a placement is Placer, in binding.yaml. It is not a client: it installs nothing.
package policies

import "embed"

// Files has the policies, several YAML documents each.
//
//go:embed *.yaml
var Files embed.FS

// Placer is the user that hilbertd is to the API server where it runs as deploy/ has it: the account of deploy/rbac.yaml.
const Placer = "system:serviceaccount:hilbert-system:hilbertd"
