// Package endpoints is what every hilbertd serves over HTTPS, whatever its role: a listener, a certificate, health checks, metrics and profiles.
//
// A role calls Listen at its start, so that an address that cannot be had fails the start, puts its own paths beside BasicPaths into a mux, and calls Serve.
// For example, the agent serves /v1/node through LocalOnly, because asking the API server who may would need one more permission on every node.
//
// Invariants: all is TLS, with the configured certificate, which is read again when its files change, or with one that is made at the start. Headers, answers,
// scrapes and the time that a client may take to read are bounded, so that a slow client keeps nobody else from an answer.
//
// It knows no role and no pod, and except for LocalOnly it decides about no one's rights: a path's handler does.
package endpoints
