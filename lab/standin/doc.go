// Package standin is an API server that costs next to nothing, so that a benchmark shows what a scheduler does where no API server is the limit.
//
// It keeps pods, nodes, Leases and what else a scheduler watches in memory, and speaks as the real one does: HTTP/2 over TLS with a bearer token,
// protobuf (JSON where a client asks for nothing else), lists with a resource version, watches that resume from one, bookmarks and streamed lists, 404,
// 409 and 410. A Binding checks the UID and what else the real one checks. The table of requests in this package's test is played against both.
//
// How a pod travels: create decodes the body, stamps UID and resource version and encodes the pod once. Those bytes are the answer, the item of lists, and
// the object of the watch event, which all watches share. A Binding changes a copy and encodes it once more.
//
// Invariants: a stored object is never changed, only replaced; each change has a resource version of its own; a watch gets every change after its version,
// once and in order, or 410.
//
// Custom resources (custom.go) are documents of JSON, with generations and the subresource status; patches of them are JSON patches or merge patches.
// What was asked is counted (calls.go) and told at /metrics under the real one's name.
//
// What it lacks, and who looks at a rate must know: no disk, no consensus, no admission, no validation, no defaulting, no authorization, no managed fields,
// no deletion grace, no finalizers and no garbage collector. It is not for tests of behaviour: kube/standin is, which can break and lie.
package standin
