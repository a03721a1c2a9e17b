package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// plugin is the name by which kubectl finds hilbert.
const plugin = "kubectl-hilbert"

// krewFile is the manifest's name in a release. krew wants a plugin's manifest to be called as the plugin is.
const krewFile = tool + ".yaml"

// The manifest of a plugin, as krew.sigs.k8s.io/docs/developer-guide/plugin-manifest has it.
type (
	krewPlugin struct {
		APIVersion string       `json:"apiVersion"`
		Kind       string       `json:"kind"`
		Metadata   krewMetadata `json:"metadata"`
		Spec       krewSpec     `json:"spec"`
	}
	krewMetadata struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
		Files    []krewFiles  `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFiles struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

// writeKrew writes the manifest by which `kubectl krew install` gets hilbert.
func (r *Release) writeKrew(built []binary) error {
	p := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMetadata{tool},
		Spec: krewSpec{
			Version: r.Version, Homepage: "https://hilbert.dev",
			ShortDescription: "Explain and simulate Hilbert's scheduling",
			Description:      "Says where a pod is, or why it waits and what would help; shows queues,\nNUMA nodes and GPUs; and simulates what would happen if.\n",
		},
	}
	list := make([]binary, 0, len(built))
	for _, b := range built {
		if b.program == tool {
			list = append(list, b)
		}
	}
	sortBinaries(list)
	for i := range list {
		b := &list[i]
		name := r.fileName(b, ".tar.gz")
		data, err := os.ReadFile(filepath.Join(r.Out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		p.Spec.Platforms = append(p.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": b.platform.OS, "arch": b.platform.Arch}},
			URI:      r.Downloads + "/" + name, SHA256: hex.EncodeToString(sum[:]), Bin: plugin,
			Files: []krewFiles{{plugin, "."}, {"LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return r.create(krewFile, text)
}
