// Package wire is the protocol between the host and the first process of a guest: paths, requests and answers, as JSON over HTTP.
//
// A request of the method CONNECT is for a connection to what the guest reaches, such as one of its pods: see package connect.
//
// Both ends are built from the same tree and shipped together, so there are no versions and no unknown fields. Every error is an HTTP status of
// 400 or more with a line of text. Times are milliseconds, and their names say so. The package has no behaviour: package vm is the client,
// and the command hilbert-vm-init is the server.
package wire

// Port is where the guest serves.
const Port = 8080

// The paths that the guest serves.
const (
	PathReady    = "/ready"    // GET: Ready
	PathExec     = "/exec"     // POST ExecRequest: ExecAnswer
	PathFile     = "/file"     // GET ?path=: the bytes of a file; PUT ?path=&mode=: writes one; DELETE ?path=
	PathDir      = "/dir"      // GET ?path=: []Entry
	PathFiles    = "/files"    // POST FilesRequest: map[string]string
	PathTar      = "/tar"      // GET ?path=…: a tar of small files and links below all paths
	PathSignal   = "/signal"   // POST SignalRequest: []int, the processes that it was sent to
	PathServices = "/services" // GET: []ServiceState; PUT ServiceSpec: defines or replaces, and starts unless it runs
	PathService  = "/service"  // POST ?name=&do=: start, stop (SIGTERM, then SIGKILL) or restart
	PathPowerOff = "/poweroff" // POST: no answer
)

// Ready says that the guest is up.
type Ready struct {
	Kernel   string `json:"kernel"`
	UptimeMS int64  `json:"uptimeMs"`
	// Problems are the steps of the start that failed and could be done without: a module, a mount.
	Problems []string `json:"problems,omitempty"`
}

// ExecRequest asks for a command to be run to its end.
type ExecRequest struct {
	Argv      []string `json:"argv"`
	Env       []string `json:"env,omitempty"`
	Stdin     []byte   `json:"stdin,omitempty"`
	TimeoutMS int64    `json:"timeoutMs,omitempty"` // 0: a minute; then SIGKILL and status 137
}

// ExecAnswer is how it went. Status is the exit status, 128 plus the signal for one that was killed.
type ExecAnswer struct {
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
	Status int    `json:"status"`
}

// Entry is one name in a directory.
type Entry struct {
	Name string `json:"name"`
	Dir  bool   `json:"dir,omitempty"`
	Link string `json:"link,omitempty"`
	Size int64  `json:"size"`
}

// FilesRequest asks for many small files at once. Files that vanish meanwhile or cannot be read are left out.
type FilesRequest struct {
	Globs []string `json:"globs"`
}

// SignalRequest sends a signal to one process, or to all whose executable has that base name.
type SignalRequest struct {
	PID    int    `json:"pid,omitempty"`
	Name   string `json:"name,omitempty"`
	Signal int    `json:"signal"`
}

// ServiceSpec is a process that the guest keeps running.
type ServiceSpec struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	// Once leaves it ended when it ends; else it is started again after RestartMS, or a fifth of a second.
	Once      bool  `json:"once,omitempty"`
	RestartMS int64 `json:"restartMs,omitempty"`
}

// ServiceState is how a service does. It logs to /var/log/NAME.log and lives in the cgroup /system.slice/NAME.service. Below systemd, Starts
// counts from the last time that it was told to start.
type ServiceState struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"` // 0: it does not run
	Starts  int    `json:"starts"`
	Status  int    `json:"status"` // of its last end, as in ExecAnswer
	Stopped bool   `json:"stopped,omitempty"`
}
