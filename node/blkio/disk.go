package blkio

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Disk is a disk of the node.
type Disk struct {
	// Name is the kernel's, "nvme0n1"; Number is how cgroups call it, "259:0".
	Name, Number string
	// Scheduler is the one in use: "none", "mq-deadline", "bfq".
	Scheduler string
}

// maxDisks bounds what is listed.
const maxDisks = 1024

// Disks lists the disks of a node whose /sys is given, by name. What is no device (loops, RAM disks, device mappings) is left out: requests pass
// through it to a disk, where they count.
func Disks(sys fs.FS) ([]Disk, error) {
	entries, err := fs.ReadDir(sys, "block")
	if err != nil {
		return nil, err
	}
	var out []Disk
	for _, entry := range entries[:min(len(entries), maxDisks)] {
		dir := path.Join("block", entry.Name())
		number := attribute(sys, dir+"/dev")
		if _, err := fs.Stat(sys, dir+"/device"); err != nil || !isNumber(number) {
			continue
		}
		out = append(out, Disk{Name: entry.Name(), Number: number, Scheduler: chosen(attribute(sys, dir+"/queue/scheduler"))})
	}
	slices.SortFunc(out, func(a, b Disk) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// attribute is what a file says; empty: it says nothing, or is not there.
func attribute(sys fs.FS, name string) string {
	text, _ := fs.ReadFile(sys, name)
	return strings.TrimSpace(string(text))
}

// chosen is the name in brackets, "[none] mq-deadline"; or the whole, where there is no choice.
func chosen(text string) string {
	if _, rest, ok := strings.Cut(text, "["); ok {
		text, _, _ = strings.Cut(rest, "]")
	}
	return text
}

func isNumber(text string) bool {
	major, minor, ok := strings.Cut(text, ":")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return ok && digits(major) && digits(minor)
}
