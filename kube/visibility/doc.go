// Package visibility is the API group visibility.hilbert.dev, which hilbertd serves behind kube-apiserver's aggregation layer: who asks, whether they
// may, and who has the answer.
//
// Data flow: a request comes from kube-apiserver with its proxy's certificate and the user in headers (FrontProxy), or from another replica with our own
// certificate (Peers). Server reads its Question, asks the API server whether the user may (Reviewer), and has it answered by this process, or by the
// leader if this one follows.
//
// Invariants: headers that name a user count with a certificate of the request-header CA only; discovery needs neither authentication nor a leader; a
// question from a replica is not passed on again; no credential of a user is read, kept or sent, but the tokens that Reviewer reviews, of which it keeps
// hashes; what is remembered is bounded, and forgotten after ten seconds.
//
// It computes no answer: that is schedule/inspect's part, called by the daemon.
package visibility
