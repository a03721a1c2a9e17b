package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/dashboard"
	"hilbert.dev/hilbert/schedule/inspect"
)

func newDashboard() *cobra.Command {
	var h ask.Hilbertd
	address, every := "127.0.0.1:0", 10*time.Second
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve pages about the cluster to a browser on this machine",
		Long: `Serve pages that show what is requested, used and lent, by node and over time, the queues, who waits and why, and which pods nodes want evicted. The pages
are made with your own rights: the cluster's state wants the right to get snapshots of visibility.hilbert.dev, a pod's or gang's page the one that
hilbert explain wants. They are served to this machine alone, at an address with a token, which the command prints. With --from they show a file that
hilbert snapshot wrote.`,
		Example: `  hilbert dashboard
  hilbert dashboard --address 127.0.0.1:8080 --every 30s
  hilbert snapshot > cluster.json && hilbert dashboard --from cluster.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < time.Second {
				return exitcode.Usagef("dashboard: --every %s: want 1s or more", every)
			}
			if !isOwnAddress(address) {
				return exitcode.Usagef("dashboard: --address %q: want an address of this machine alone, such as 127.0.0.1:8080, for the pages are made with your rights", address)
			}
			source, err := dashboardSource(cmd.Context(), &h)
			if err != nil {
				return err
			}
			return serveDashboard(cmd, source, address, every)
		},
	}
	h.Flags(cmd)
	h.FromFlag(cmd)
	cmd.Flags().StringVar(&address, "address", address, "address of this machine to serve at; port 0: a free one")
	cmd.Flags().DurationVar(&every, "every", every, "how often the state is read; less often where reading takes long")
	return cmd
}

func dashboardSource(ctx context.Context, h *ask.Hilbertd) (dashboard.Source, error) {
	if h.From == "" {
		return asked{h}, nil
	}
	d, err := h.Read(ctx)
	if err != nil {
		return nil, err
	}
	return dashboard.File(h.From, d), nil
}

// isOwnAddress reports whether nobody but this machine reaches an address.
func isOwnAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// serveDashboard serves until the command is interrupted.
func serveDashboard(cmd *cobra.Command, source dashboard.Source, address string, every time.Duration) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return exitcode.Usagef("dashboard: --address: %w", err)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	s := dashboard.New(source, dashboard.Options{Every: every})
	go s.Follow(ctx)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		_ = server.Close() // the command ends
	}()
	fmt.Fprintf(cmd.OutOrStdout(), "Open %s\n", s.Address(listener.Addr().String()))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("dashboard: %w", err)
	}
	return nil
}

// asked is a source that asks a hilbertd.
type asked struct{ h *ask.Hilbertd }

// State asks for a snapshot.
func (a asked) State(ctx context.Context) (*inspect.Dump, error) {
	body, err := a.h.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	d, err := inspect.ReadDump(body)
	if err != nil {
		return nil, fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	return d, nil
}

// Pod asks about a pod.
func (a asked) Pod(ctx context.Context, namespace, name string) (*inspect.Answer, error) {
	return a.h.Pod(ctx, namespace, name)
}

// Unit asks about a gang.
func (a asked) Unit(ctx context.Context, namespace, name string) (*inspect.UnitAnswer, error) {
	return a.h.Unit(ctx, namespace, name)
}

// Name is whom it asks.
func (a asked) Name() string {
	if a.h.Target.Server != "" {
		return a.h.Target.Server
	}
	return "the API server"
}
