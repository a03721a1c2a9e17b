// Package reserve serves Reservations: it tells which pods that wait may have the rooms that are kept, and says in each Reservation's status how its places stand.
//
// The places themselves are pods of the ledger (cluster.Placeholders), and are placed by the scheduler as any pod is. Data flow: the ledger says which sets have
// changed; Owners names the pods to try; Status turns changes into writes, and takes their answers.
//
// Invariants: a set of which nothing has changed since it was tried costs nothing; at most MaxInFlight writes are under way, one for each Reservation.
//
// It decides on no node, and ends no place: the ledger does.
package reserve
