// Package replica is what goes over the wire to a copy of the ledger's columns in another process, and how it is written: CBOR.
//
// # How it works
//
// A cluster.Feed makes Deltas of a ledger, and a cluster.Replica takes them in. A Delta has the rows of the slots that have changed, each whole: a row that comes twice changes nothing. What rows name by
// number comes with them: resources (Kinds), what is counted (Definitions), classes of pods. For example, one pod of a known class is committed on a known node: the Delta has one Row without
// Node, of some fifty bytes.
//
// The ledger's own types go over the wire as they are: facts.Node, facts.Requirements, the machine's parts of package topology. A field that is added to them is carried without a word here, and Schema
// is another one then, so that two processes that do not mean the same do not talk.
//
// # Invariants
//
//   - Decode refuses what is too large or nested too deep, and never panics. It does not say that numbers mean something: the Replica does.
//   - nil and empty stay apart, for Requirements.Required tells them apart.
//
// The package knows neither ledger nor network.
package replica
