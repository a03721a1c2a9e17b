// Package enforce brings the kernel to what is wanted of it: a Table of knobs, each a file of a cgroup with a wanted value and one owner,
// is compared with the kernel and written where it differs.
//
// What always holds: a knob has one owner, and another one is refused; a value that is right is not written again; values are compared as
// the kernel means them, so "0,1" is "0-1"; what shrinks a CPU set is written before what grows one, and a parent before its children;
// one knob is written at most MaxAttempts times in a tick, and one that the kernel goes on refusing is tried ever more rarely.
//
// It decides no value and starts no goroutine. A Table belongs to one caller at a time; whoever must not wait for a slow file (a change of
// cpuset.mems moves memory, which takes seconds) gives such files a Table of their own.
package enforce
