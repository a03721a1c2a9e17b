// Package gpu knows a node's GPUs: which there are, which number each has, which must not be given, and whether they are ours to give.
//
// Data flow: a Driver takes an Inventory of what NVIDIA's driver says. Step puts it beside what is remembered of those before, a Memory that
// outlasts the agent, and answers with a View: GPUs by index, the closed ones with a reason. View.Devices makes of it what the allocator counts
// with. DecideOwner says which party gives the GPUs out.
//
// Invariants: an index belongs to a PCI address, and an instance's to its UUID while a pod holds it, for as long as the Memory lives, so what
// was promised by index is never another device. What the driver does not say is not known, never zero: a GPU whose memory is not known is closed,
// a counter that is not kept is no fault. A GPU is closed at the first sign of trouble, and opened when several answers in a row were good. Who
// holds a closed GPU keeps it. If anybody else may sell the GPUs, they are not ours.
//
// Step, Devices and DecideOwner are pure. SMI, the driver's shell, runs nvidia-smi: docs/dependencies.md says why neither a library nor a
// dynamic loader. Nothing here changes a setting of a GPU: neither its compute mode nor its MIG mode or instances. It injects nothing, which is
// package cdi's, and limits nothing, which is package mps's.
package gpu
