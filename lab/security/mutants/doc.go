// Package mutants breaks each rule of docs/security.md on purpose and runs the test that holds it: the test must fail. A test that passes all the same would hold
// nothing.
//
// A mutant is a file of the tree with one of its lines changed. It is given to the compiler in the file's place (go test -overlay), so that the tree itself stays as it
// is. In the short form the mutants are compared with the tree and with the table of docs/security.md only; the whole form, make security-mutants, builds and runs them.
//
// Not here are rules that a test takes out of force by itself, on the lab's API server: policies, roles and their bindings. The tests of lab/security and lab/policy do.
package mutants
