// Package store keeps values on disk for the agent, beside its loop.
//
// A Store keeps one value; File is one in a file. A Saver writes the newest of the values that it is given to a Store: one write is under way at a time, in a goroutine that nobody waits for, and values
// that come meanwhile are merged to the newest. It says in the loop how each write has ended.
//
// For example, the agent admits three pods within a second and calls Save with a new checkpoint each time. The first is being written when the other two come; then the third is written, and the
// second never.
//
// Invariants: a File holds the old value or the new one, never a part of one. Save does not wait for the disk; only Flush does, when the loop has ended, and no longer than it is told to. What a
// disk refused is wanted still, and is tried again at the next Save. A value that is on disk already is not written again.
//
// It knows no format: the owner of a value encodes it, reads it with Load, and says what happens where that fails. It is no database and keeps no history.
package store
