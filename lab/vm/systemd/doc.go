// Package systemd tests hilbertd as a node's agent where systemd owns the cgroup tree: systemd is the guest's first process, and the kubelet and
// containerd use the systemd cgroup driver.
//
// Data flow: package join makes a node of the guest; the rig installs the definitions and runs hilbertd as an agent, as a systemd service. The
// test binds pods itself. Then it makes systemd and the kubelet rewrite the attributes of their cgroups, while a loop in the guest reads every
// knob of every pod many times a second.
//
// Invariants: tests assert what the guest's kernel says. The list of knobs and their values is read from the kernel before the rewrites, and is
// checked against what the pods were promised. A knob may be wrong for one tick of the agent plus what the emulated machine needs, and never
// longer.
//
// It has no code but tests, and is not part of the short form: the boot takes longer, and what it tests changes rarely.
package systemd
