package nri

import (
	"fmt"
	"path"
	"strings"
)

// sliceSuffix ends the name of a systemd slice.
const sliceSuffix = ".slice"

// containerCgroup turns the runtime's cgroupsPath of a container into its directory below the root of the hierarchy. The cgroupfs driver
// says "/kubepods/burstable/pod1/id"; systemd's says "kubepods-burstable-pod1.slice:cri-containerd:id".
func containerCgroup(cgroupsPath string) (string, error) {
	parts := strings.Split(cgroupsPath, ":")
	if len(parts) == 1 {
		return directory(cgroupsPath)
	}
	if len(parts) != 3 || parts[2] == "" {
		return "", fmt.Errorf("cgroups path %q: want a directory, or SLICE:PREFIX:NAME", cgroupsPath)
	}
	slice, prefix, name := parts[0], parts[1], parts[2]
	if slice == "" {
		slice = "system" + sliceSuffix // what runc takes then
	}
	unit := name
	if !strings.HasSuffix(unit, sliceSuffix) { // as runc names its units
		if prefix != "" {
			unit = prefix + "-" + name
		}
		unit += ".scope"
	}
	above, err := sliceDirectory(slice)
	if err != nil {
		return "", fmt.Errorf("cgroups path %q: %w", cgroupsPath, err)
	}
	if strings.ContainsRune(unit, '/') {
		return "", fmt.Errorf("cgroups path %q: %q is no unit", cgroupsPath, unit)
	}
	return directory(above + "/" + unit)
}

// podCgroup turns the cgroup parent of a pod's sandbox into the pod's directory. The kubelet names a systemd slice by its whole path, of
// which the last element says it all.
func podCgroup(parent string) (string, error) {
	if base := path.Base(parent); strings.HasSuffix(base, sliceSuffix) {
		return sliceDirectory(base)
	}
	return directory(parent)
}

// sliceDirectory is where systemd keeps a slice: "a-b.slice" lies in "a.slice".
func sliceDirectory(slice string) (string, error) {
	name, ok := strings.CutSuffix(slice, sliceSuffix)
	if !ok || strings.ContainsRune(name, '/') {
		return "", fmt.Errorf("%q is no slice", slice)
	}
	if name == "-" { // the root
		return "", nil
	}
	var dir, prefix string
	for element := range strings.SplitSeq(name, "-") {
		if element == "" {
			return "", fmt.Errorf("slice %q: an element of its name is empty", slice)
		}
		prefix += element
		dir = path.Join(dir, prefix+sliceSuffix)
		prefix += "-"
	}
	return dir, nil
}

// directory makes a cgroup's path one below the root of the hierarchy.
func directory(name string) (string, error) {
	dir := strings.Trim(name, "/")
	for element := range strings.SplitSeq(dir, "/") {
		if element == "" || element == "." || element == ".." {
			return "", fmt.Errorf("cgroup %q: want a directory below the root", name)
		}
	}
	return dir, nil
}
