// Package requests has ResourceRequests answered on a real API server, with its garbage collector, a scheduler that leads, and a word count for a master.
//
//	TestWordCount  pods fail and are deleted, the master and the controller are replaced, and the words are counted right; nothing is left over
//	TestRefusals   what the definition and the roles do not allow
//
// The kubelets are the test's: they run the worker's function in the place of a container.
package requests
