//go:build !linux

package enforce

import "errors"

// Files is the real Kernel, which only Linux has.
type Files struct{}

var errNoLinux = errors.New("the agent needs Linux with cgroup v2")

// OpenFiles fails.
func OpenFiles(string, string) (*Files, error) { return nil, errNoLinux }

// Close does nothing.
func (*Files) Close() error { return nil }

// Controllers fails.
func (*Files) Controllers() ([]string, error) { return nil, errNoLinux }

// Read implements Kernel.
func (*Files) Read(string) (string, error) { return "", errNoLinux }

// Write implements Kernel.
func (*Files) Write(string, string) error { return errNoLinux }
