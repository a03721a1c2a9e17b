package artifacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// member is a file of an archive.
type member struct {
	name string // slash-separated
	mode int64
	data []byte
}

// writeTar writes an archive that depends on nothing but its arguments: sorted by name, owned by root, all of one time.
func writeTar(w io.Writer, members []member, at time.Time) error {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, m := range members {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: m.name, Mode: m.mode, Size: int64(len(m.data)), ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(m.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeTarGz is writeTar, compressed.
func writeTarGz(w io.Writer, members []member, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, members, at); err != nil {
		return err
	}
	return z.Close()
}

// archive packs a program with its licence and its bill of materials. hilbert is called kubectl-hilbert in it too, as kubectl finds its plugins.
func (r *Release) archive(b *binary) error {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return err
	}
	members := []member{{"LICENSE", 0o644, licence}, {b.program, 0o755, program}}
	if b.program == tool {
		members = append(members, member{plugin, 0o755, program})
	}
	return r.createFrom(r.fileName(b, ".tar.gz"), func(w io.Writer) error { return writeTarGz(w, members, r.Time) })
}

// createFrom writes a file of the release as a stream.
func (r *Release) createFrom(name string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(filepath.Join(r.Out, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return write(file)
}

// readTarGz reads what writeTarGz wrote.
func readTarGz(data []byte) (members []member, err error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		members = append(members, member{header.Name, header.Mode, content})
	}
}
