package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

const (
	// schedulerQPS is kube-scheduler's client limit: far above what the API server takes, so that it never is the limit.
	schedulerQPS = 20000
	// readyzPoll is how often a scheduler's /readyz is asked before the round starts.
	readyzPoll = 50 * time.Millisecond
)

// kubeSchedulerConfig is the default profile, and nothing but the client's limits set.
const kubeSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: %d
  burst: %d
leaderElection:
  leaderElect: true
  resourceNamespace: kube-system
  resourceName: %s
`

// RunKubeScheduler runs kube-scheduler as its own command would, with the default profile, and says ready on out when its watches
// are synced. It ends the process when its leadership ends, as upstream does.
//
// gates are feature gates as kube-scheduler's --feature-gates takes them, empty for the defaults.
func RunKubeScheduler(ctx context.Context, kubeconfig, dir, gates string, out io.Writer) error {
	config := filepath.Join(dir, "kube-scheduler.yaml")
	text := fmt.Sprintf(kubeSchedulerConfig, kubeconfig, schedulerQPS, schedulerQPS, kubeSchedulerLease)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("configuration of kube-scheduler: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("port for kube-scheduler: %w", err)
	}
	o := options.NewOptions()
	flags := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, named := range o.Flags.FlagSets {
		flags.AddFlagSet(named)
	}
	given := []string{"--config=" + config, "--profiling=false", "--bind-address=127.0.0.1", "--cert-dir=" + dir}
	if gates != "" {
		given = append(given, "--feature-gates="+gates)
	}
	if err := flags.Parse(given); err != nil {
		return fmt.Errorf("flags of kube-scheduler: %w", err)
	}
	o.SecureServing.Listener, o.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates of kube-scheduler: %w", err)
	}
	completed, scheduler, err := app.Setup(ctx, o)
	if err != nil {
		return fmt.Errorf("set up kube-scheduler: %w", err)
	}
	go func() {
		if AwaitReadyz(ctx, "https://"+listener.Addr().String()+"/readyz") == nil {
			_ = Ready(out) // a parent that reads no more is gone, which ends ctx
		}
	}()
	if err := app.Run(ctx, completed, scheduler); ctx.Err() == nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	return nil
}

// AwaitReadyz returns when url answers 200. The certificate is not checked: it is this process's own.
func AwaitReadyz(ctx context.Context, url string) error {
	client := &http.Client{
		Timeout: time.Second,
		//nolint:gosec // see above
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(readyzPoll)
	defer tick.Stop()
	for {
		if err := readyz(ctx, client, url); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func readyz(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
