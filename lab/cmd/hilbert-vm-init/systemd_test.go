package main

import (
	"testing"

	"hilbert.dev/hilbert/lab/vm/wire"
)

// TestUnit: what the host asks for is what systemd is told, whatever characters it has.
func TestUnit(t *testing.T) {
	got := unit(wire.ServiceSpec{Name: "kubelet", Argv: []string{"/usr/bin/kubelet", `--say=100% "$HOME" \o/`}, Env: []string{"A=b c"}, RestartMS: 1500})
	want := `[Unit]
Description=kubelet, for the host
StartLimitIntervalSec=0

[Service]
ExecStart="/usr/bin/kubelet" "--say=100%% \"$$HOME\" \\o/"
Environment="PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
Environment="HOME=/root"
Environment="TMPDIR=/tmp"
Environment="A=b c"
Restart=always
RestartSec=1500ms
KillMode=process
TimeoutStopSec=10s
TasksMax=infinity
LimitNOFILE=1048576
StandardOutput=append:/var/log/kubelet.log
StandardError=append:/var/log/kubelet.log
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestUnitState: what systemctl shows is told in our words.
func TestUnitState(t *testing.T) {
	for shown, want := range map[string]wire.ServiceState{
		"MainPID=12\nNRestarts=2\nExecMainCode=0\nExecMainStatus=0\n":     {Name: "one", PID: 12, Starts: 3},
		"MainPID=0\nNRestarts=0\nExecMainCode=1\nExecMainStatus=1\n":      {Name: "one", Starts: 1, Status: 1},
		"ExecMainStatus=9\nMainPID=0\nNRestarts=4\nExecMainCode=2\nX=y\n": {Name: "one", Starts: 5, Status: 137},
	} {
		if got := unitState("one", shown); got != want {
			t.Errorf("%q: got %+v, want %+v", shown, got, want)
		}
	}
}
