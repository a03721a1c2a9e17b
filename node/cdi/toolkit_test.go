package cdi

import (
	"errors"
	"strings"
	"testing"
)

func TestToolkit(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"refuses", "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n\n[nvidia-container-cli]\nload-kmods = true\n", ""},
		{"refuses, among others", "disable-require = false\naccept-nvidia-visible-devices-envvar-when-unprivileged=false # ours\n", ""},
		{"accepts", "accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", "when-unprivileged = false"},
		{"as it is installed", "#accept-nvidia-visible-devices-envvar-when-unprivileged = true\ndisable-require = false\n", "nvidia-ctk config"},
		{"a comment", "#accept-nvidia-visible-devices-envvar-when-unprivileged = false\n", "when-unprivileged = false"},
		{"empty", "", "when-unprivileged = false"},
		{"of another table", "[nvidia-container-cli]\naccept-nvidia-visible-devices-envvar-when-unprivileged = false\n", "when-unprivileged = false"},
		{"no boolean", "accept-nvidia-visible-devices-envvar-when-unprivileged = \"false\"\n", "when-unprivileged = false"},
		{"spelt otherwise", "Accept-NVIDIA-visible-devices-envvar-when-unprivileged = false\n", "when-unprivileged = false"},
		{"twice", "accept-nvidia-visible-devices-envvar-when-unprivileged = false\naccept-nvidia-visible-devices-envvar-when-unprivileged = true\n", "no TOML"},
		{"broken", "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n[", "no TOML"},
	} {
		err := CheckToolkit([]byte(c.text))
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrToolkit) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
