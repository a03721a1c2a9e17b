package join

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// PluginResource is what the example of a plugin brings in the guest.
	PluginResource = "example.com/fpga"
	// PluginProgram is the base name of its executable there, by which signals find it.
	PluginProgram = "node-plugin"
	// PluginPath is where it is there.
	PluginPath = "/usr/bin/" + PluginProgram
)

// StartPlugin builds the example of a plugin for the node's agent from the repository's root, and runs it in the guest with so many cards near each NUMA node, by number, as
// "0,0,1". more are further arguments of it.
func (n *Node) StartPlugin(ctx context.Context, root, service, cards string, more ...string) error {
	if err := n.InstallPlugin(ctx, root); err != nil {
		return err
	}
	_, err := n.Guest.Define(ctx, wire.ServiceSpec{Name: service, Argv: append([]string{PluginPath, "-resource", PluginResource, "-cards", cards}, more...)})
	return err
}

// InstallPlugin builds the example of a plugin from the repository's root, and writes it to PluginPath in the guest.
func (n *Node) InstallPlugin(ctx context.Context, root string) error {
	binary := filepath.Join("bin", "guest", PluginProgram)
	build := exec.CommandContext(ctx, "go", "-C", root, "build", "-ldflags", "-s -w", "-o", binary, "./examples/node-plugin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the guest has no libraries
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	file, err := os.Open(filepath.Join(root, binary))
	if err != nil {
		return err
	}
	defer file.Close() // the request has closed it, unless it was never sent
	const executable = 0o755
	return n.Guest.WriteFile(ctx, PluginPath, file, executable)
}
