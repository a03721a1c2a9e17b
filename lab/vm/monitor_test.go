package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestMonitor: commands are said one after the other, each after the answer to the one before; greeting and events are no answers; an error is told.
func TestMonitor(t *testing.T) {
	g := &Guest{options: Options{Dir: t.TempDir()}}
	l, err := net.Listen("unix", monitorSocket(g.options))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var all []string
		defer func() { said <- strings.Join(all, "; ") }()
		fmt.Fprintln(c, `{"QMP": {"version": {}, "capabilities": []}}`)
		requests := json.NewDecoder(c)
		for {
			var request struct {
				Execute   string            `json:"execute"`
				Arguments map[string]string `json:"arguments"`
			}
			if requests.Decode(&request) != nil {
				return
			}
			all = append(all, fmt.Sprint(request.Execute, " ", request.Arguments))
			if request.Execute == "no-such" {
				fmt.Fprintln(c, `{"error": {"class": "CommandNotFound", "desc": "it is not known"}}`)
				return
			}
			fmt.Fprintln(c, `{"event": "RESET"}`, `{"return": {}}`)
		}
	}()
	err = g.monitor(t.Context(), command{"set-action", map[string]string{"reboot": "reset"}}, command{"no-such", nil}, command{"system_reset", nil})
	if err == nil || !strings.Contains(err.Error(), "no-such: it is not known") {
		t.Errorf("got %v, want the error of the second command", err)
	}
	if got, want := <-said, "qmp_capabilities map[]; set-action map[reboot:reset]; no-such map[]"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}
