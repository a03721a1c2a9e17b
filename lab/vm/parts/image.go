package parts

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// images writes both images into one archive, in the form of docker save: one layer, which they share, and two configurations.
func images(path, busy, busybox string) error {
	var layer bytes.Buffer
	if err := writeLayer(&layer, busy, busybox); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	sum := sha256.Sum256(layer.Bytes())
	files := []memberFile{{"layer.tar", layer.Bytes()}}
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	for _, image := range []struct {
		name string
		argv []string
	}{{PauseImage, []string{"/busy", "pause"}}, {BusyImage, []string{"/busy"}}} {
		config, err := json.Marshal(map[string]any{
			"architecture": "amd64", "os": "linux",
			"config": map[string]any{"Entrypoint": image.argv, "Env": []string{"PATH=/bin"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		})
		if err != nil {
			return fmt.Errorf("images: %w", err)
		}
		own := sha256.Sum256(config)
		name := hex.EncodeToString(own[:]) + ".json"
		files = append(files, memberFile{name, config})
		manifest = append(manifest, entry{Config: name, RepoTags: []string{image.name}, Layers: []string{"layer.tar"}})
	}
	index, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, file := range append(files, memberFile{"manifest.json", index}) {
		if err := file.write(out, 0o644); err != nil {
			return fmt.Errorf("images: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return os.WriteFile(path, archive.Bytes(), 0o644)
}

// memberFile is one file of a tar archive.
type memberFile struct {
	name string
	data []byte
}

func (f memberFile) write(out *tar.Writer, mode int64) error {
	if err := out.WriteHeader(&tar.Header{Name: f.name, Mode: mode, Size: int64(len(f.data))}); err != nil {
		return err
	}
	_, err := out.Write(f.data)
	return err
}

// writeLayer puts in the workload and, for those who look into a container, a shell.
func writeLayer(w *bytes.Buffer, busy, busybox string) error {
	out := tar.NewWriter(w)
	for _, dir := range []string{"bin/", "tmp/", "dev/", "proc/", "sys/", "etc/"} {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{"busy": busy, "bin/busybox": busybox} {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := (memberFile{name, data}).write(out, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"sh", "cat", "ls", "echo", "grep", "sleep", "nproc"} {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}); err != nil {
			return err
		}
	}
	return out.Close()
}
