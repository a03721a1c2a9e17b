package daemon

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/internal/version"
)

func TestCommandVersion(t *testing.T) {
	command := NewCommand()
	var out strings.Builder
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil || out.String() != "hilbertd version "+version.Get().String()+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestCleanupFlag(t *testing.T) {
	for flag, want := range map[string]string{"--cleanup": "roles: [agent]", "--cleanup=never": "want end, stay or nodes"} {
		command := NewCommand()
		command.SetArgs([]string{flag})
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
