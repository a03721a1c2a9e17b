// Package metrics carries the APIServices of the groups custom.metrics.k8s.io and external.metrics.k8s.io, as the file beside it has them.
//
// Data flow: hilbert certificate --for metrics adds the caBundle of a certificate that it made, and a person creates the result; the lab reads them here. The chart has its own, which
// look first whether somebody else has a group.
//
// Invariants: the file has no caBundle and never insecureSkipTLSVerify, so that as it stands kube-apiserver trusts nobody. It is not a client: it installs nothing.
package metrics

import _ "embed" // the APIServices

// APIServices are the manifests, with a line of --- between them.
//
//go:embed apiservices.yaml
var APIServices []byte
