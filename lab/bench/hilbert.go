package bench

import (
	"context"
	"io"

	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

// RunHilbert runs hilbertd with the configuration file config ("" for its defaults) and says ready on out when it is synced.
func RunHilbert(ctx context.Context, kubeconfig, config string, out io.Writer) error {
	c, err := configfile.Load(config)
	if err != nil {
		return err
	}
	c.ClientConnection.Kubeconfig = kubeconfig
	c.Server.BindAddress = "127.0.0.1:0" // the default port may be taken
	return daemon.Run(ctx, c, daemon.Options{
		OnSynced: func() { _ = Ready(out) }, // a parent that reads no more is gone, which ends ctx
	})
}
