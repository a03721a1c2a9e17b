package artifacts

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user of the image: nobody in particular, as distroless images have it. Agents' pods say that they run as root.
const nobody = "65532:65532"

// writeImage writes the image of hilbertd as an OCI layout in a tar archive, which containerd, podman, skopeo and crane read. It is made from nothing: one
// layer with one static program.
func (r *Release) writeImage(built []binary, work string) error {
	index := v1.ImageIndex(empty.Index)
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	for i := range built {
		b := &built[i]
		if b.program != daemon {
			continue
		}
		image, err := r.image(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.platform.OS, Architecture: b.platform.Arch}},
		})
	}
	index = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	at := filepath.Join(work, "layout")
	path, err := layout.Write(at, empty.Index)
	if err != nil {
		return err
	}
	// containerd names what it imports by the first annotation, others by the second.
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": r.reference(), "org.opencontainers.image.ref.name": r.Version,
	})); err != nil {
		return err
	}
	members, err := folder(os.DirFS(at), "")
	if err != nil {
		return err
	}
	return r.createFrom(r.imageFile(), func(w io.Writer) error { return writeTar(w, members, r.Time) })
}

// imageFile is the name of the image's archive.
func (r *Release) imageFile() string { return daemon + "_" + r.Version + "_oci.tar" }

// reference is the image's name in its registry.
func (r *Release) reference() string { return r.Registry + "/" + daemon + ":" + r.Version }

// image is the image for one platform.
func (r *Release) image(b *binary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	if err := writeTar(&files, []member{{daemon, 0o755, program}}, r.Time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.Time.UTC().Truncate(time.Second)}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	image, err = mutate.ConfigFile(image, r.imageConfig(image, b, created))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return mutate.Annotations(image, r.annotations()).(v1.Image), nil
}

func (r *Release) imageConfig(image v1.Image, b *binary, created v1.Time) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil { // it is in memory
		panic(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.platform.OS, b.platform.Arch, created
	config.Config = v1.Config{Entrypoint: []string{"/" + daemon}, User: nobody, WorkingDir: "/", Labels: r.annotations()}
	return config
}

// annotations are those that OCI defines, of the image and of its index.
func (r *Release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       daemon,
		"org.opencontainers.image.description": "Hilbert's scheduler, node agent and watchdog",
		"org.opencontainers.image.version":     r.Version,
		"org.opencontainers.image.revision":    r.Commit,
		"org.opencontainers.image.created":     r.Time.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// folder reads all files of a folder as members below a prefix, following symbolic links.
func folder(files fs.FS, prefix string) (members []member, err error) {
	return members, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		members = append(members, member{prefix + name, 0o644, data})
		return nil
	})
}
