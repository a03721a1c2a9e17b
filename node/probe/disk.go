package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/blkio"
)

// The bounds of what a disk is asked for. A file of DiskFileBytes is written once by large blocks, and at most once each by small ones in sequence and at random; DiskTime
// ends each of the six measurements. So no more than three times the file is written, in no more than six times the time.
const (
	DiskFileBytes = 256 << 20
	DiskTime      = 3 * time.Second
	// diskSpare is how many times the file must fit in what is free.
	diskSpare = 8
	// diskQuiet is how long the disk is watched first, and quietRequests how many requests of others it may have meanwhile.
	diskQuiet     = time.Second
	quietRequests = 20
)

// DiskTrial is a disk that may be measured, by a file in a directory on it.
type DiskTrial struct {
	// Directory is where the file is made.
	Directory string
	// InUse allows to measure a disk that others use.
	InUse bool
	// Mounts is the text of this process' mountinfo.
	Mounts string
	// Free is what the file system has free, in bytes.
	Free func() (uint64, error)
	// Wait lets time pass while the disk is watched.
	Wait func(time.Duration)
	// Measure writes and reads the file, within the bounds, and removes it.
	Measure func(ctx context.Context) (spec.IOModel, error)
}

// diskModel measures what a disk can do, for node.lending.io.disks[].model.
func diskModel(ctx context.Context, m *Machine) verdict {
	d := m.Disk
	if d == nil {
		return unknown("no disk was measured: that writes to it", "--disk DIRECTORY, on a disk that nobody uses")
	}
	holders, err := blkio.Holders(sub(m.Root, "sys"), d.Mounts, d.Directory)
	if err != nil {
		return unknown(err.Error(), "name a directory on a disk of this machine")
	}
	if len(holders) != 1 {
		return unknown(fmt.Sprintf("%s is on several disks, %s: what one of them can do does not follow", d.Directory, strings.Join(holders, " ")), "name a directory on one of them alone")
	}
	disk := holders[0]
	free, err := d.Free()
	if err != nil {
		return unknown(fmt.Sprintf("how much is free there: %v", err), "")
	}
	if free < diskSpare*DiskFileBytes {
		return unknown(fmt.Sprintf("%s has %d MiB free: a file of %d MiB would be too much of that", d.Directory, free>>20, DiskFileBytes>>20), "name a directory with more room")
	}
	if !d.InUse {
		used, err := requests(m.Root, disk)
		if err != nil {
			return unknown(err.Error(), "")
		}
		d.Wait(diskQuiet)
		after, err := requests(m.Root, disk)
		if err != nil {
			return unknown(err.Error(), "")
		}
		if n := after - used; n > quietRequests {
			return unknown(fmt.Sprintf("%s is in use: %d requests in %v; nothing was written", disk, n, diskQuiet), "drain the node first, or take --disk-in-use: the figures are then too low, and others wait")
		}
	}
	model, err := d.Measure(ctx)
	if err != nil {
		return unknown(fmt.Sprintf("%s: %v", disk, err), "")
	}
	said := fmt.Sprintf("node.lending.io.disks: [{device: %s, model: {readBytes: %d, sequentialReads: %d, randomReads: %d, writeBytes: %d, sequentialWrites: %d, randomWrites: %d}}]",
		disk, model.ReadBytes, model.SequentialReads, model.RandomReads, model.WriteBytes, model.SequentialWrites, model.RandomWrites)
	if err := blkio.ParamsOf(&spec.LendingIO{
		Weights: spec.Default().Node.Lending.IO.Weights, Disks: []spec.IODisk{{Device: disk, Model: model}},
	}).Validate(); err != nil {
		return unknown(fmt.Sprintf("%v; measured %s", err, said), "measure again: the disk did nothing in some measurement")
	}
	return pass(said)
}

// requests are how many requests a disk has had.
func requests(root fs.FS, disk string) (uint64, error) {
	const reads, writes = 0, 4
	name := "sys/block/" + disk + "/stat"
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, fmt.Errorf("how busy the disk is: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) <= writes {
		return 0, fmt.Errorf("/%s says %q", name, text)
	}
	a, errA := strconv.ParseUint(fields[reads], 10, 64)
	b, errB := strconv.ParseUint(fields[writes], 10, 64)
	if err := errors.Join(errA, errB); err != nil {
		return 0, fmt.Errorf("/%s: %w", name, err)
	}
	return a + b, nil
}

// sub is a directory of the machine.
func sub(root fs.FS, name string) fs.FS {
	below, err := fs.Sub(root, name)
	if err != nil {
		return root // the name is valid, so there is no error
	}
	return below
}
