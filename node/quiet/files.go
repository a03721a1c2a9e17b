package quiet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Knobs read and write files of cgroups; enforce.Files is one.
type Knobs interface {
	Read(path string) (string, error)
	Write(path, value string) error
}

// Machine is a machine's Files: Directory is the kernel's directory of interrupts, and Cgroups the hierarchy.
type Machine struct {
	Directory string
	Cgroups   Knobs
}

// maxAffinity bounds what is read of one.
const maxAffinity = 4096

// Interrupts implements Files.
func (m Machine) Interrupts() (out []string, err error) {
	entries, err := os.ReadDir(m.Directory)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Directory, err)
	}
	for _, entry := range entries {
		if _, err := strconv.ParseUint(entry.Name(), 10, 32); err == nil {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// Read implements Files.
func (m Machine) Read(p Place) (string, error) {
	number, interrupt := p.Interrupt()
	if !interrupt {
		return m.Cgroups.Read(string(p) + "/cpuset.cpus")
	}
	name, err := m.affinity(number)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(name)
	return string(text[:min(len(text), maxAffinity)]), err
}

// Write implements Files.
func (m Machine) Write(p Place, value string) error {
	number, interrupt := p.Interrupt()
	if !interrupt {
		return m.Cgroups.Write(string(p)+"/cpuset.cpus", value)
	}
	name, err := m.affinity(number)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// affinity is an interrupt's file. The number may come from a file on disk.
func (m Machine) affinity(number string) (string, error) {
	if _, err := strconv.ParseUint(number, 10, 32); err != nil {
		return "", fmt.Errorf("interrupt %q: %w", number, fs.ErrNotExist)
	}
	return filepath.Join(m.Directory, number, "smp_affinity_list"), nil
}
