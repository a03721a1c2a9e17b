package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/storage"
)

// The kubelet's state files, and the policy with which a manager does nothing.
const (
	CPUManagerState    = "cpu_manager_state"
	MemoryManagerState = "memory_manager_state"
	policyNone         = "none"
)

// modePoll is how often the kubelet's managers are looked at again.
const modePoll = 10 * time.Second

// Mode says whether the agent or the kubelet gives the node's CPUs out, and how that is known. It asks the kubelet, if its address is known; else the kubelet's
// state files say it, as they do where the kubelet does not answer and the agent sees its directory. False: nobody says it, and the kubelet's managers may be on.
func (r Roots) Mode(ctx context.Context, config *spec.Node) (mode, why string, known bool) {
	if config.Mode != spec.ModeAuto {
		return config.Mode, "node.mode says so", true
	}
	if kubelet := r.kubelet(config.KubeletDirectory); kubelet != nil {
		return autoMode(ctx, config.KubeletDirectory, kubelet.Configuration)
	}
	return autoMode(ctx, config.KubeletDirectory, nil)
}

// autoMode asks the kubelet, unless ask is nil.
func autoMode(ctx context.Context, directory string, ask func(context.Context) (*storage.KubeletConfiguration, error)) (mode, why string, known bool) {
	if ask != nil {
		said, err := ask(ctx)
		if err == nil {
			mode, why = modeOf("/configz", said.CPUManagerPolicy, said.MemoryManagerPolicy)
			return mode, why, true
		}
		if _, unseen := os.Stat(filepath.Join(directory, CPUManagerState)); unseen != nil {
			return spec.ModeKubelet, err.Error(), false
		}
	}
	var policies [2]string
	for i, name := range []string{CPUManagerState, MemoryManagerState} {
		var err error
		if policies[i], err = managerPolicy(filepath.Join(directory, name)); err != nil { // its manager may be on
			return spec.ModeKubelet, err.Error(), true
		}
	}
	mode, why = modeOf(directory, policies[0], policies[1])
	return mode, why, true
}

// modeOf judges the policies of the kubelet's managers.
func modeOf(source, cpu, memory string) (mode, why string) {
	for name, policy := range map[string]string{"CPU": cpu, "memory": memory} {
		if policy != "" && !strings.EqualFold(policy, policyNone) {
			return spec.ModeKubelet, fmt.Sprintf("%s: the kubelet's %s manager has the policy %s", source, name, policy)
		}
	}
	return spec.ModeAgent, source + ": the kubelet's managers are off"
}

// managerPolicy is the policy that a manager of the kubelet last ran with. Without a file it never ran.
func managerPolicy(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return policyNone, nil
	}
	if err != nil {
		return "", err
	}
	var state struct {
		Policy string `json:"policyName"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if state.Policy == "" {
		return "", fmt.Errorf("%s: names no policy", path)
	}
	return state.Policy, nil
}

// WatchMode calls changed when another one rules than at the start. A kubelet that starts writes its files anew, so one look is not enough; and while nobody
// says who rules, all stays as it is.
func (r Roots) WatchMode(ctx context.Context, config *spec.Node, mode string, changed func()) {
	ticker := time.NewTicker(modePoll)
	defer ticker.Stop()
	for differs := 0; differs < 2; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now, _, known := r.Mode(ctx, config); known && now != mode {
			differs++
		} else {
			differs = 0
		}
	}
	changed()
}
