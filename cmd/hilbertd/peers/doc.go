// Package peers carries the messages of package outside between a leader and schedulers in other processes: one stream of gRPC for each scheduler, with certificates on both sides.
//
// # How it works
//
// A scheduler (Client) tries the addresses of the leader's name in turn. Who does not lead says so, and the next is tried. On the stream it says Hello, gets a Welcome, and answers each Work.
// The leader's side (Server) hands all that comes to its Desk, which is the scheduling loop.
//
// Messages are written by package replica's codec, not as protobuf (ADR 0021). Certificates, keys and authorities are read from their files at each handshake if they have changed: nothing is started anew when they are
// rotated. A connection lasts as long as the certificates are valid with which it began.
//
// A scheduler may show a token beside its certificate. Its file is read at each join; whose it is, the Desk finds out.
//
// The package decides nothing: what is late, foreign or too old, the Desk says.
package peers
