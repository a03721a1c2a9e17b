// Package dumpfile writes a dump of the ledger as JSON and reads it back: what `hilbert` commands read with --from, and what a bug report
// carries.
//
// The types of the format are apart from the ledger's, so that names and layouts there may change while files stay readable. For example, a
// pod is one line:
//
//	{"uid":"a","namespace":"shop","name":"web-0","phase":"bound","node":"n1","requirements":0}
//
// where requirements is an index into the list of distinct requirements, for ten thousand pods of one Deployment share them.
//
// What always holds: Read refuses a field that it does not know, that is missing or that stands twice; writing what was read gives the same
// bytes. The package imports the ledger's Dump and is never imported by it; whether a dump makes sense is checked by cluster.Load.
package dumpfile
