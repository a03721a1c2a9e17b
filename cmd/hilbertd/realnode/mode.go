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
)

// The kubelet's state files, and the policy with which a manager does nothing.
const (
	CPUManagerState    = "cpu_manager_state"
	MemoryManagerState = "memory_manager_state"
	policyNone         = "none"
)

// modePoll is how often the kubelet's managers are looked at again.
const modePoll = 10 * time.Second

// Mode says whether the agent or the kubelet gives the node's CPUs out, and how that is known.
func Mode(config spec.Node) (mode, why string) {
	if config.Mode != spec.ModeAuto {
		return config.Mode, "node.mode says so"
	}
	for _, name := range []string{CPUManagerState, MemoryManagerState} {
		path := filepath.Join(config.KubeletDirectory, name)
		policy, err := managerPolicy(path)
		switch {
		case err != nil: // its manager may be on
			return spec.ModeKubelet, err.Error()
		case policy != policyNone:
			return spec.ModeKubelet, fmt.Sprintf("%s: the kubelet's manager has the policy %s", path, policy)
		}
	}
	return spec.ModeAgent, "the kubelet's managers are off"
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
	return strings.ToLower(state.Policy), nil
}

// WatchMode calls changed when another one rules than at the start. A kubelet that starts writes its file anew, so one look is not enough.
func WatchMode(ctx context.Context, config spec.Node, mode string, changed func()) {
	ticker := time.NewTicker(modePoll)
	defer ticker.Stop()
	for differs := 0; differs < 2; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now, _ := Mode(config); now != mode {
			differs++
		} else {
			differs = 0
		}
	}
	changed()
}
