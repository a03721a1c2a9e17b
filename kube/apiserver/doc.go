// Package apiserver makes connections and requests to the API server for the other packages of kube.
//
// Each purpose (watches, writes, the leader election, the agent) gets a connection of its own by ForPurpose, so that a full one does not hold up
// the others. A Requester makes one HTTP request at a time without the retries of client-go's REST client: whoever writes must know whether a write was
// sent. A Surveyor asks which APIs the server has, and a Follower watches an API for as long as the server has it. Health logs one line when the server
// becomes unreachable and one when it is back.
//
// Invariants: nothing here repeats a request that may have been processed; every answer that is read has a bound; what client-go would log is
// silenced, because these packages log it once themselves.
//
// It knows nothing of pods or leases and decides nothing.
package apiserver
