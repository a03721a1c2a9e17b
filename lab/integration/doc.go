// Package integration runs upstream's integration tests of scheduling with Hilbert in kube-scheduler's place: what a scheduler does, judged through the API alone by
// scenarios that nobody here wrote.
//
// Data flow: tests.txt names the tests (List). WriteSources copies them out of the module cache, with the packages through which they start their scheduler, into a
// module that is thrown away; there upstream's scheduler still watches, as tests read its cache, but its Run starts a program in its place. Run starts an etcd, runs
// the packages with "go test", and joins what each test came to (Result). The program is RunHilbert: hilbertd against the test's own API server, set up as the test
// set up kube-scheduler.
//
//	passed 240, failed 0, failed only with hilbert 0
//
// Invariants: all of upstream's tests are in the list, each that is not run with its cause. A test that passes without having started an outside scheduler is an
// error, and one that takes single steps of kube-scheduler dies: neither would say anything about Hilbert. Nothing of upstream's is kept here.
//
// It does not change what a test asks for, repeat one that fails, or know what any of them is about.
package integration
