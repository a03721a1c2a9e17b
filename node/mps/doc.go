// Package mps turns a soft slice of a GPU into what NVIDIA's Multi-Process Service needs to limit it: environment and mounts for the pod, and
// what the daemon that serves the GPU says of itself.
//
// Data flow: deploy/mps.yaml runs one control daemon for each GPU, in a pod of its own that outlives the agent, and keeps a file with each daemon's
// state and the name of the memory that it shares with its clients. Params.Edits makes of a slice what package cdi injects. ReadState reads the file; State.Serves says whether new slices may be given.
//
// Invariants: a slice is limited to no more than it was charged, in threads and in memory, and one that cannot be limited so is refused. A state
// that is old or not understood is no state: then nothing soft is given. Nothing here changes the compute mode of a GPU, or talks to a daemon.
//
// What it is not: isolation. The limits are per process: two processes of one slice have twice of it. They are cooperative: a process that clears its
// environment runs at the daemon's default, which is the whole GPU, and one that leaves the pipe runs beside MPS. They are upper bounds, and reserve
// nothing. All pods that share a GPU share one server: its end is theirs, and a fault of one of them may be. They share a /dev/shm too, which they can fill up to
// its bound, must be of one user, and none may be root of the host, whom the daemon obeys. The daemons of two GPUs, and two namespaces, share no /dev/shm (Owners).
package mps
