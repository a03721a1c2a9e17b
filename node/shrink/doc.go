// Package shrink takes memory away from cgroups, beside the agent's loop: it writes memory.reclaim in small steps, one goroutine for each
// cgroup that is being shrunk, and reports the result.
//
// Example. Pod a should give back 100 MiB. Its goroutine writes 32 MiB, 32 MiB, 32 MiB and 4 MiB to memory.reclaim. If online pods feel pressure after
// the second write, the request ends there, and the report says that 64 MiB were reclaimed.
//
// What always holds: a cgroup has one request at a time, and no more than Params.Workers are under way; one write asks for MaxStep at most;
// before each write the worker checks whether the request is late, whether online pods feel pressure and whether the agent is stopping, so that
// each of these ends a request within one write. Ask never waits. Each accepted request is reported once.
//
// It decides neither which cgroup to shrink nor how far: node/advise does. It writes no limit: a limit below what a cgroup holds has the kernel
// reclaim inside of the write, for as long as that takes, so limits follow when memory has gone (node/enforce).
package shrink
