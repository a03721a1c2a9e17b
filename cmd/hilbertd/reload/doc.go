// Package reload reads a configuration file again while its process runs.
//
//	Divide  decides what of another configuration a running process can go on with, and what it would have to be started again for
//	File    says when the file has changed
//
// Divide is a function of two configurations. Whoever runs the process has what is applied take effect, says in its log and its metrics what came of it, and goes on as before
// where the file is not valid.
//
// Invariants: each field that differs is either applied or needs a restart. A configuration that mixes both, as a process runs with until it is started again, is valid, or
// nothing of the file is applied.
package reload
