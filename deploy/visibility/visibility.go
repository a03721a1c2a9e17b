// Package visibility carries the APIService of the group visibility.hilbert.dev, as the file beside it has it.
//
// Data flow: hilbert certificate adds the caBundle of a certificate that it made, and a person applies the result; what installs it without one (the lab,
// tests) reads it here. A cluster with cert-manager takes the file itself, and lets it inject the bundle.
//
// Invariants: the file has no caBundle and never insecureSkipTLSVerify, so that as it stands kube-apiserver trusts nobody. It is not a client: it installs
// nothing.
package visibility

import _ "embed" // the APIService

// APIService is the manifest.
//
//go:embed apiservice.yaml
var APIService []byte
