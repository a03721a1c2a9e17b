package cdi

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// unprivileged is the setting of NVIDIA's container toolkit that must be false. Where it is missing, the toolkit takes it for true.
const unprivileged = "accept-nvidia-visible-devices-envvar-when-unprivileged"

// ErrToolkit is a configuration of NVIDIA's container toolkit under which containers can have GPUs that their pods do not hold.
var ErrToolkit = errors.New("NVIDIA's container toolkit may give GPUs to any container that asks by " + visible)

// CheckToolkit is nil if the toolkit, configured by text, gives no GPU to an unprivileged container because of its environment. Inject sets the variable, but
// cannot be sure that the toolkit reads that value: the setting makes it read none. What is not understood is refused.
func CheckToolkit(text []byte) error {
	var config map[string]any
	if err := toml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%w: its configuration is no TOML: %w", ErrToolkit, err)
	}
	if accepts, is := config[unprivileged].(bool); is && !accepts {
		return nil
	}
	return fmt.Errorf("%w: set %s = false (nvidia-ctk config --in-place --set %s=false)", ErrToolkit, unprivileged, unprivileged)
}
