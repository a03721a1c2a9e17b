// Package runtime has what the container runtime and the agent tell each other: pods' sandboxes, containers, and what containers get.
//
// Data flow: node/nri translates the runtime's events into a Sandbox and a Container, and hands them to the agent. The agent answers with an Adjustment before a container's first instruction, and with
// Updates later. A Mark goes with the adjustment and stays with the container as an annotation. So the watchdog, and an agent that starts anew, know from the runtime alone what a container was given.
//
// For example, a container of a pod with GPU 1 is created. Its Adjustment has CPUs 4-5, the CDI device nvidia.com/gpu=1 and the Mark {"container":"c7","gpus":"1", ...}. An agent that starts after a
// crash reads the mark, and knows that the pod holds GPU 1 though its own checkpoint was never written.
//
// Invariants: a Mark counts only for the container whose ID is in it, which nobody knows beforehand, so that no pod can bring one. What the runtime does not say is empty, nil or 0, and never guessed.
// NeedsAgent errs on the side of the promise: a container whose pod was promised something of the node needs the agent.
//
// It is not the CRI and no wire format, and decides nothing about CPUs or devices. What the agent remembers of pods is in node/pods.
package runtime
