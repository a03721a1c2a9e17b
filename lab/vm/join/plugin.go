package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"hilbert.dev/hilbert/lab/vm/wire"
)

// PluginResource is what the example of a plugin brings in the guest.
const PluginResource = "example.com/fpga"

// StartPlugin builds the example of a plugin for the node's agent from the repository's root, and runs it in the guest with so many cards near each NUMA node, by number, as
// "0,0,1".
func (n *Node) StartPlugin(ctx context.Context, root, service, cards string) error {
	binary := filepath.Join("bin", "guest", "node-plugin")
	build := exec.CommandContext(ctx, "go", "-C", root, "build", "-ldflags", "-s -w", "-o", binary, "./examples/node-plugin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the guest has no libraries
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	file, err := os.Open(filepath.Join(root, binary))
	if err != nil {
		return err
	}
	const executable = 0o755
	err = errors.Join(n.Guest.WriteFile(ctx, "/usr/bin/node-plugin", file, executable), file.Close())
	if err != nil {
		return err
	}
	_, err = n.Guest.Define(ctx, wire.ServiceSpec{Name: service, Argv: []string{"/usr/bin/node-plugin", "-resource", PluginResource, "-cards", cards}})
	return err
}
