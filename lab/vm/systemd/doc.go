// Package systemd holds the test of hilbertd as a node's agent where systemd owns the cgroup tree: the second profile of the guest, with
// systemd as the first process, and the systemd driver in the kubelet and in containerd.
//
// Data flow: package join makes a node of the guest; the rig installs the definitions and runs hilbertd as an agent, a service of systemd's
// there. Pods are bound by the test itself. Then systemd and the kubelet are made to write the attributes of their cgroups anew, while a
// loop in the guest reads every knob of every pod, many times a second.
//
// Invariants: what is asserted is what the guest's kernel says. The knobs and where they are come from the kernel before anything was
// provoked, and are checked against what the pods were promised. A knob may be wrong for one tick of the agent's, and what the emulated
// machine needs beyond that; never longer.
//
// It has no code but tests, and is not in the short form: the boot takes longer, and what it tests does not change often.
package systemd
