package main

import (
	"archive/tar"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// maxTarFile bounds what is kept of one file; what describes a machine is small.
const maxTarFile = 64 << 10

// unreadable are files of the kernel that are memory of a device, or that take long.
var unreadable = regexp.MustCompile(`/(resource\d+(_wc)?|rom|vpd|remove|rescan|reset|uevent|vmcoreinfo)$`) //nolint:gochecknoglobals // compiled once

// sendTar streams the small files and the links below each path. What cannot be read is left out.
func sendTar(w http.ResponseWriter, r *http.Request) {
	out := tar.NewWriter(w)
	for _, root := range r.URL.Query()["path"] {
		roots, err := filepath.Glob(root)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return nil //nolint:nilerr // gone meanwhile, or not to be read
				}
				return addToTar(out, path, d)
			})
			if err != nil {
				return // the host went away
			}
		}
	}
	_ = out.Close() // as above
}

func addToTar(out *tar.Writer, path string, d fs.DirEntry) error {
	header := tar.Header{Name: path[1:], Mode: 0o644, Format: tar.FormatPAX}
	switch {
	case d.IsDir():
		header.Typeflag, header.Mode, header.Name = tar.TypeDir, 0o755, header.Name+"/"
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
	default:
		info, err := d.Info()
		if err != nil || !d.Type().IsRegular() || info.Mode().Perm()&0o400 == 0 || unreadable.MatchString(path) {
			return nil //nolint:nilerr // not to be read
		}
		data, ok := readSome(path)
		if !ok {
			return nil
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	return out.WriteHeader(&header)
}

// readSome reads without the runtime's poller: some files of the kernel would never become ready.
func readSome(path string) ([]byte, bool) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = syscall.Close(fd) }()
	data := make([]byte, 0, 4096)
	for len(data) < maxTarFile {
		chunk := make([]byte, 4096)
		n, err := syscall.Read(fd, chunk)
		if err != nil {
			return nil, false
		}
		if n <= 0 {
			break
		}
		data = append(data, chunk[:n]...)
	}
	return data, true
}
