package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cmd/exitcode"
)

// TestDashboard: the pages have what a hilbertd says, for who opens the printed address; they end with the command.
func TestDashboard(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := New()
	out, in := io.Pipe()
	cmd.SetOut(in)
	cmd.SetArgs(append([]string{"dashboard"}, c.through()...))
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(strings.TrimPrefix(line, "Open "))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	get := func(address string) string {
		answer, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", address, answer.StatusCode, err, text)
		}
		return string(text)
	}
	page := get(address)
	for strings.Contains(page, "The state is being read.") {
		page = get(address)
	}
	host, _, _ := strings.Cut(address, "/?")
	for path, want := range map[string]string{"/": "<dt>nodes</dt><dd>2</dd>", "/nodes/n2": "/pods/default/", "/waiting": "default/huge", "/pods/default/huge": "n1 lacks 17 cpu"} {
		if page := get(host + path); !strings.Contains(page, want) {
			t.Errorf("%s does not say %q:\n%s", path, want, page)
		}
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("in the end: %v", err)
	}
	if _, err := client.Get(host + "/"); err == nil {
		t.Error("it is served still")
	}
}

// TestDashboardArguments: pages that are made with a user's rights are for this machine alone.
func TestDashboardArguments(t *testing.T) {
	for _, args := range [][]string{{"--address", "0.0.0.0:0"}, {"--address", ":8080"}, {"--address", "10.0.0.1:80"}, {"--every", "10ms"}} {
		cmd := New()
		cmd.SetArgs(append([]string{"dashboard", "--from", "-"}, args...))
		cmd.SetIn(strings.NewReader("{}"))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), args[0]) || exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%v: %v", args, err)
		}
	}
}
