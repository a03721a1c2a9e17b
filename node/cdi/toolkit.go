package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

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

// maxToolkitConfig is more than the toolkit has settings for, in bytes.
const maxToolkitConfig = 1 << 20

// CheckToolkitFile is CheckToolkit for the file at an absolute path below root. Without the file no toolkit is installed, and nothing is wrong. A link that leads nowhere, or out
// of what root shows, is not that.
func CheckToolkitFile(root fs.FS, file string) (installed bool, err error) {
	name := strings.TrimPrefix(path.Clean(file), "/")
	if _, err := fs.Lstat(root, name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	text, err := readToolkit(root, name)
	if err == nil {
		err = CheckToolkit(text)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", file, err)
	}
	return true, nil
}

func readToolkit(root fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(root, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxToolkitConfig:
		return nil, fmt.Errorf("the configuration of NVIDIA's container toolkit is no file of at most %d bytes", maxToolkitConfig)
	}
	return fs.ReadFile(root, name)
}
