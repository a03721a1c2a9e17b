package main

import (
	"io"
	"os"
	"time"
)

// cacheFile is what is read. It has no blocks: the kernel makes pages of zeros of it, so that no disk is waited for.
const cacheFile = "/cache"

// cache reads a file through, so that it is page cache of the container: once, or again and again with a pause.
func (d *done) cache(mebibytes int, pause time.Duration) error {
	file, err := os.Create(cacheFile)
	if err != nil {
		return err
	}
	if err := file.Truncate(int64(mebibytes) << 20); err != nil {
		return err
	}
	through := func() error {
		buffer := make([]byte, walkStep)
		for i := range mebibytes {
			if _, err := file.ReadAt(buffer, int64(i)*walkStep); err != nil && err != io.EOF {
				return err
			}
			d.pieces.Add(1)
		}
		return nil
	}
	if err := through(); err != nil || pause == 0 {
		return err
	}
	go func() {
		for {
			time.Sleep(pause)
			if err := through(); err != nil {
				panic(err) // a test would take it for a calm
			}
		}
	}()
	return nil
}
