// Package events records what the agent has to tell people: of pods, and of its node.
//
// A Recorder has three outlets. The report lists each note, for hilbertd to write it as an Event; notes are counted by reason, for the metrics; and the condition AgentReady names the Problems for as
// long as they stand. A note that repeats, about the same pod and with the same reason, is one event with a count.
//
// For example, the clock jumps. NoteTransient records one event with the reason ClockJumped; for a minute the condition is false and says so, and each further jump in that minute is only counted.
//
// Invariants: the list has at most spec.MaxNodeEvents; beyond them the event that has been silent longest is left out, and Dropped counts it. An event that has not been repeated for half an hour is
// left out too. A Problem stands until it is resolved by whoever set it. Recorders belong to the agent's loop.
//
// It writes no Event and no report, and decides nothing from what it records.
package events
