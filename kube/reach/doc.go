// Package reach is how the command line tool asks about a cluster, and how hilbertd checks who is asking.
//
// Reach finds the leader by its Lease and returns an Inspector, which asks that hilbertd over HTTPS: directly, or through the API server's pod
// proxy. On the other side a Reviewer asks the API server who the bearer token belongs to (TokenReview) and whether that user may get the path
// (SubjectAccessReview). EachNodeReport reads CustomNodeResources page by page, and ReadManifests reads the pods that a YAML file would create.
//
// Invariants: a token is sent only over TLS; a Reviewer keeps hashes of tokens, never tokens, and forgets an answer after ten seconds; nothing
// here writes to the cluster, except those reviews.
//
// It renders nothing: that is the tool's part.
package reach
