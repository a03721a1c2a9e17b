// Package dumptest checks that a dump survives the way to a file and back. Tests that compare what a scheduler says with what its dump says send the dump
// through RoundTrip first, so that a field that is not written cannot go unnoticed:
//
//	dump := dumptest.RoundTrip(t, inspect.Take(scheduler, "hilbert", now))
//
// The text of a dump that is read and written again must be the same, byte for byte. The package says nothing about whether a dump is right.
package dumptest

import (
	"bytes"

	"hilbert.dev/hilbert/schedule/inspect"
)

// T is a *testing.T, or the *rapid.T of one run of a property.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// RoundTrip writes a dump and reads it back.
func RoundTrip(t T, d *inspect.Dump) *inspect.Dump {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatalf("write: %v", err)
	}
	text := b.String()
	read, err := inspect.ReadDump(&b)
	if err != nil {
		t.Fatalf("read: %v in\n%s", err, text)
	}
	b.Reset()
	if err := read.Write(&b); err != nil || b.String() != text {
		t.Fatalf("written again (%v):\n%s\nfirst:\n%s", err, b.String(), text)
	}
	return read
}
