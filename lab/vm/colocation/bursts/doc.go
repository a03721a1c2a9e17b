// Package bursts measures an online server that asks for half of a machine of four CPUs and is busy in bursts, beside offline pods of several kinds: alone, alone on the CPUs that
// it asks for, beside BestEffort pods under the kubelet's weights, and beside the same pods under Hilbert.
//
// Data flow: as in package colocation, whose Bed, Figures and Result it uses. The guest has eight virtual CPUs. Pods may use four of them. On the others run
// burners: the host has fewer cores than the guest, so that offline pods take the server's time on the host too, whatever CPU of the guest they run on. Each arm
// has so many burners that about as many CPUs of the guest are busy in each.
//
// Invariants: arms are interleaved, in another order in each round. Burners never run where pods run.
//
// It has no code but tests, and runs only where results are asked for.
package bursts
