package spec

// QuietCPUs says what is kept off the CPUs that dedicated pods have for themselves. What it was before is given back when no pod has them, when this is switched off, and at
// the removal of the agent.
type QuietCPUs struct {
	// Interrupts keeps interrupts off them that may be moved. An agent in a pod needs the host's /proc/irq for that, mounted writable at /run/hilbert-irq.
	Interrupts bool `json:"interrupts,omitempty"`
	// Services keeps the host's own services off them: the cgroups system.slice, user.slice and init.scope.
	Services bool `json:"services,omitempty"`
}
