package artifacts

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

// DefaultRegistry is where the charts look for the image.
const DefaultRegistry = "registry.hilbert.dev/hilbert"

// Push sends the image and the charts of a release's folder to a registry: REGISTRY/hilbertd:v0.1.0, REGISTRY/charts/hilbert:0.1.0.
func Push(ctx context.Context, dir, registry string, log func(format string, args ...any)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	pushed := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), "_oci.tar"):
			err = pushImage(ctx, path, registry, log)
		case strings.HasSuffix(e.Name(), ".tgz"):
			err = pushChart(ctx, path, registry, log)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("push %s: %w", e.Name(), err)
		}
		pushed++
	}
	if pushed == 0 {
		return fmt.Errorf("%s has no image and no chart: is it the folder of a release?", dir)
	}
	return nil
}

func pushImage(ctx context.Context, path, registry string, log func(format string, args ...any)) error {
	work, err := os.MkdirTemp("", "hilbert-push-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := unpack(path, work); err != nil {
		return err
	}
	all, err := layout.ImageIndexFromPath(work)
	if err != nil {
		return err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("it has %d images", len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	at, err := name.ParseReference(registry + "/" + daemon + ":" + manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	if err != nil {
		return err
	}
	log("push %s@%s", at, manifest.Manifests[0].Digest)
	return remote.WriteIndex(at, index, remote.WithContext(ctx))
}

// unpack unpacks an archive of an OCI layout.
func unpack(path, into string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(into) // no name leads out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, archive); err != nil { //nolint:gosec // it is our own archive
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}

// pushChart sends a chart as helm push would, and without the time of pushing that helm adds.
func pushChart(ctx context.Context, path, registry string, log func(format string, args ...any)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	meta, err := chartMetadata(data)
	if err != nil {
		return err
	}
	config, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	image, err := chartImage(config, data)
	if err != nil {
		return err
	}
	at, err := name.ParseReference(fmt.Sprintf("%s/charts/%s:%s", registry, meta["name"], meta["version"]))
	if err != nil {
		return err
	}
	log("push %s", at)
	return remote.Write(at, image, remote.WithContext(ctx))
}

// chartMetadata is a packaged chart's Chart.yaml.
func chartMetadata(chart []byte) (meta map[string]any, err error) {
	members, err := readTarGz(chart)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if strings.Count(m.name, "/") == 1 && strings.HasSuffix(m.name, "/Chart.yaml") {
			return meta, yaml.Unmarshal(m.data, &meta)
		}
	}
	return nil, errors.New("it has no Chart.yaml")
}
