//go:build !linux

package probe

import (
	"errors"
	"time"
)

// Real is nil: only Linux has what is probed.
func Real(time.Time, string, bool) *Machine { return nil }

// RealDisk fails: only Linux has what is probed.
func RealDisk(string, bool) (*DiskTrial, error) { return nil, errors.New("this is no Linux machine") }
