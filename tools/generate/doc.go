// Package generate holds the versions of controller-gen, which writes the deep copies of the API's types, and of the generators of the plugin protocol, and tests that what
// they have written is what they write now.
//
// Data flow: `make gen` runs the lines go:generate of the packages below api/, which take controller-gen from this module; so its dependencies are none of the product's. The test runs
// the same into another folder, and compares.
//
// Invariants: it makes deep copies only. The definitions in deploy/crds are written by hand, because controller-gen cannot say what they say: see docs/dependencies.md.
package generate
