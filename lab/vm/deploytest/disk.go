package deploytest

import (
	"context"
	"fmt"

	"hilbert.dev/hilbert/lab/vm"
)

const (
	// StateDirectory is where the agent keeps what it has to know after a restart.
	StateDirectory = "/var/lib/hilbert"
	stateImage     = "/run/state-disk"
	filler         = StateDirectory + "/filler"
)

// StateDisk is a small disk of its own for the agent's state directory, which can be filled and frozen while the rest of the guest goes on. Nothing of the agent
// may run while it is mounted or unmounted.
type StateDisk struct{ Guest *vm.Guest }

func (d StateDisk) run(ctx context.Context, what, script string) error {
	if out, err := d.Guest.Shell(ctx, script); err != nil {
		return fmt.Errorf("%s the disk of the state directory: %w: %s", what, err, out)
	}
	return nil
}

// Mount makes and mounts it.
func (d StateDisk) Mount(ctx context.Context) error {
	return d.run(ctx, "mount", `set -e; mkdir -p `+StateDirectory+`; dd if=/dev/zero of=`+stateImage+` bs=1M count=8 2>&1
		busybox mke2fs -F `+stateImage+`; loop=$(busybox losetup -f); busybox losetup $loop `+stateImage+`; mount -t ext4 $loop `+StateDirectory)
}

// Unmount takes it away, thawed.
func (d StateDisk) Unmount(ctx context.Context) error {
	return d.run(ctx, "unmount", `busybox fsfreeze --unfreeze `+StateDirectory+` 2>/dev/null
		set -e; loop=$(awk '$2 == "`+StateDirectory+`" {print $1}' /proc/mounts); umount `+StateDirectory+`; busybox losetup -d $loop; rm `+stateImage)
}

// Fill leaves no byte free on it.
func (d StateDisk) Fill(ctx context.Context) error {
	return d.run(ctx, "fill", "dd if=/dev/zero of="+filler+" bs=4k 2>/dev/null; sync; free=$(stat -f -c %a "+StateDirectory+"); [ $free -le 1 ] || { echo $free blocks are free; false; }")
}

// Free ends that.
func (d StateDisk) Free(ctx context.Context) error { return d.run(ctx, "free", "rm -f "+filler) }

// Freeze has everything that writes to it wait until Thaw.
func (d StateDisk) Freeze(ctx context.Context) error {
	return d.run(ctx, "freeze", "busybox fsfreeze --freeze "+StateDirectory)
}

// Thaw ends that.
func (d StateDisk) Thaw(ctx context.Context) error {
	return d.run(ctx, "thaw", "busybox fsfreeze --unfreeze "+StateDirectory)
}
