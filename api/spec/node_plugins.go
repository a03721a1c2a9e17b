package spec

// NodePlugins says whether the agent asks plugins: processes that bring resources which it does not know by itself.
type NodePlugins struct {
	// Enabled has the agent look for plugins' sockets in Directory.
	Enabled bool `json:"enabled,omitempty"`
	// Directory must be root's and have mode 0700. deploy/agent.yaml mounts /run/hilbert.
	Directory string `json:"directory"`
	// Timeout bounds what a pod's start waits for plugins, all calls together. Container runtimes wait 2s for the agent by default.
	Timeout Duration `json:"timeout"`
	// Interval is how often the agent looks for plugins, and compares with each of them what pods hold.
	Interval Duration `json:"interval"`
	// Mounts are the directories of the host from which plugins may mount something into containers.
	Mounts []string `json:"mounts,omitempty"`
}
