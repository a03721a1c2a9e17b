// Package realnodetest has parts of a machine in memory, for tests that run an agent and must not touch the machine on which they run. For example, a test gives
// realnode.Roots a Kernel that returns NewCgroups(), starts an agent, and reads Files to see what it wrote.
//
// Invariants: nothing outside the process is read or written; files that are not there cannot be written, as in the kernel.
//
// It does not model what a kernel does with the values: package sim/corun does.
package realnodetest

import (
	"sync"
	"syscall"
)

// Cgroups is a cgroup hierarchy in memory, a realnode.KernelFiles. As in the kernel, files are there before they are written. Lock it to read or change Files
// while an agent runs.
type Cgroups struct {
	sync.Mutex
	// Files are the contents of the hierarchy's files, by their path below its root.
	Files map[string]string
	// Enabled are the controllers that the hierarchy has.
	Enabled []string
}

// NewCgroups returns a hierarchy without files, which has the controllers that an agent needs.
func NewCgroups() *Cgroups {
	return &Cgroups{Files: make(map[string]string), Enabled: []string{"cpuset", "cpu", "io", "memory"}}
}

// Read returns what a file holds.
func (c *Cgroups) Read(name string) (string, error) {
	c.Lock()
	defer c.Unlock()
	if value, there := c.Files[name]; there {
		return value, nil
	}
	return "", syscall.ENOENT
}

// Write changes a file that is there.
func (c *Cgroups) Write(name, value string) error {
	c.Lock()
	defer c.Unlock()
	if _, there := c.Files[name]; !there {
		return syscall.ENODEV
	}
	c.Files[name] = value
	return nil
}

// Controllers lists those that are Enabled.
func (c *Cgroups) Controllers() ([]string, error) { return c.Enabled, nil }

// Close does nothing.
func (c *Cgroups) Close() error { return nil }
