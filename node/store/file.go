package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Store keeps one value. Save returns when it would outlast a loss of power, and leaves the old value where it fails. Load returns nil
// where nothing was ever saved.
type Store interface {
	Load() ([]byte, error)
	Save(data []byte) error
}

// maxBytes bounds what is read of a file: some hundred times what a full node needs.
const maxBytes = 16 << 20

// File is a Store in one file. A value is written beside it, made durable, and put in its place, so that the file is the old value or the
// new one and never a part.
type File string

// Load implements Store.
func (f File) Load() ([]byte, error) {
	info, err := os.Stat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many (at most %d)", f, info.Size(), maxBytes)
	}
	return os.ReadFile(string(f))
}

// Save implements Store.
func (f File) Save(data []byte) error {
	dir := filepath.Dir(string(f))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	beside := string(f) + ".new" // one name: what a crash leaves is overwritten
	if err := write(beside, data); err != nil {
		return err
	}
	if err := os.Rename(beside, string(f)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func write(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
