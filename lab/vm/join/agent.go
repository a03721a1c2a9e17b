package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// AgentPort is where an agent serves in the guest; it is to be among vm.Options.Forward.
	AgentPort = 10462
	// AgentKubeconfig is what an agent's configuration names, and agentConfig where that lies.
	AgentKubeconfig = "/etc/hilbert/kubeconfig"
	agentConfig     = "/etc/hilbert/agent.yaml"
	// agentTimeout bounds an answer of the agent.
	agentTimeout = 10 * time.Second
)

// StartAgent builds hilbertd from the tree at root, brings it to the guest, and runs it there as a service of that name.
func (n *Node) StartAgent(ctx context.Context, root, service, kubeconfig, configuration string) error {
	binary := filepath.Join(root, "bin", "guest", "hilbertd") // kept, so that it is not linked again for the tests of each package
	build := exec.CommandContext(ctx, "go", "-C", root, "build", "-ldflags", "-s -w", "-o", filepath.Join("bin", "guest", "hilbertd"), "./cmd/hilbertd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the guest has no libraries
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build hilbertd: %w\n%s", err, out)
	}
	file, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer file.Close()
	err = errors.Join(
		n.Guest.WriteFile(ctx, "/usr/bin/hilbertd", file, 0o755),
		n.Guest.WriteString(ctx, AgentKubeconfig, kubeconfig),
		n.Guest.WriteString(ctx, agentConfig, configuration),
	)
	if err != nil {
		return err
	}
	return n.DefineAgent(ctx, service)
}

// DefineAgent runs the agent that StartAgent has brought to the guest, as after a reboot.
func (n *Node) DefineAgent(ctx context.Context, service string) error {
	_, err := n.Guest.Define(ctx, wire.ServiceSpec{Name: service, Argv: []string{"/usr/bin/hilbertd", "--config=" + agentConfig}})
	return err
}

// ReconfigureAgent starts an agent's service again with another configuration.
func (n *Node) ReconfigureAgent(ctx context.Context, service, configuration string) error {
	if err := n.Guest.WriteString(ctx, agentConfig, configuration); err != nil {
		return err
	}
	return n.Guest.Service(service).Restart(ctx)
}

// AskAgent is the agent's answer at a path.
func (n *Node) AskAgent(ctx context.Context, path string) (string, error) {
	client := http.Client{Timeout: agentTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, // its certificate is its own
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+n.Guest.Forwarded(AgentPort)+path, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return string(body), err
}

// AgentMetric is a number in what the agent serves at /metrics; 0 where there is none of that name yet.
func AgentMetric(metrics, name string) (value float64, err error) {
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				return 0, fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	return value, nil
}
