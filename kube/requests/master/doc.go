// Package master is how an application master asks for containers: a client of one ResourceRequest.
//
//	Client.Open     creates the request, or finds the one that a master before has left
//	Client.Ask      asks for containers, or for more of them
//	Client.Release  gives containers back
//	Client.Watch    shows what has become of them, each time that changes
//	Client.Message  is what a container said at its end
//	Client.Free     lets a pod go that a finalizer of the master keeps
//
// Example: a master opens words with an ask of 8, watches until 8 have succeeded, reads their messages and closes. If it is started again in between, Open finds the request, and Watch shows which have succeeded already.
//
// Invariants: everything may be done twice, so that a master that does not know whether it was answered does it again. A change is made to what the API server has, not to what was seen last: two masters of one request do not undo one another.
//
// It makes no pods: the role controller does (kube/requests).
package master
