package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The media types of a chart in a registry, as helm.sh/docs/topics/registries has them.
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartCore is a chart as a registry has it: its metadata where an image has its configuration, and the package as the only layer.
type chartCore struct {
	config, manifest []byte
	layer            v1.Layer
	digest           v1.Hash
}

func chartImage(config, chart []byte) (v1.Image, error) {
	layer := static.NewLayer(chart, chartLayerType)
	digest, err := layer.Digest()
	if err != nil {
		return nil, err
	}
	named, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: chartConfigType, Size: size, Digest: named},
		Layers: []v1.Descriptor{{MediaType: chartLayerType, Size: int64(len(chart)), Digest: digest}},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&chartCore{config: config, manifest: manifest, layer: layer, digest: digest})
}

func (c *chartCore) RawConfigFile() ([]byte, error)      { return c.config, nil }
func (c *chartCore) RawManifest() ([]byte, error)        { return c.manifest, nil }
func (c *chartCore) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (c *chartCore) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if h != c.digest {
		return nil, fmt.Errorf("the chart has no layer %s", h)
	}
	return c.layer, nil
}
