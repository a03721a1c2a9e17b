// Package watchdog keeps a node's promises while its agent is silent. It runs in a process of its own, with an image of its own, and knows as little as
// possible.
//
// Two parties may write the CPUs of pods: the agent, and the watchdog while the agent is silent. A Directory on a file system in memory lies between them; it
// lives as long as the cgroups do, and no disk is in the way. In it are
//
//   - the turn: one file whose name says who owns the knobs, and for the how manieth time. Renaming it takes the turn; of two that try, one succeeds. Who
//     has the turn looks that the file is still there before each write of a knob;
//   - the beat: a number that the agent's loop changes each second;
//   - the plan: what the agent leaves for its absence. It is the CPUs of the pods that share, as if nothing were lent, and those of the kubelet's QoS cgroups.
//
// Decide says when the watchdog takes the turn: when the beat has not changed for Silence. It keeps the turn until the agent takes it back, which the agent
// does as soon as it knows what runs. A knob that is being written at the very moment when the turn changes may get the old owner's value; the new
// owner compares all knobs again: the watchdog each second, the agent each tick.
package watchdog
