package plugin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/hint"
	"hilbert.dev/hilbert/topology"
)

// Bounds of answers, beside that of their bytes.
const (
	maxHints       = 255 // as many as there are sets of NUMA nodes
	maxHeld        = 1024
	maxIDs         = 64
	maxID          = 128   // bytes
	maxEnv         = 64    // variables
	maxEnvBytes    = 32768 // together
	maxDevices     = 64
	maxMounts      = 16
	maxAnnotations = 16
	maxAnnotation  = 1024 // bytes
	maxName        = 63
	maxVersion     = 64
	maxDeviceNo    = 1 << 20
)

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	qualified = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Info is what a plugin says of itself.
type Info struct {
	Name, Resource, Version string
	GivesHints, Detects     bool
}

// reader reads the answers of one plugin.
type reader struct {
	machine *topology.Machine
	// mounts are the directories of the host from which a plugin may mount something.
	mounts []string
}

func lie(format string, args ...any) error { return fmt.Errorf(format+": %w", append(args, ErrLie)...) }

// info reads the answer to Register on the socket of a name.
func (r *reader) info(name string, a *api.RegisterResponse) (Info, error) {
	switch {
	case a.GetProtocol() != api.Protocol:
		return Info{}, fmt.Errorf("protocol %d: the agent speaks %d", a.GetProtocol(), api.Protocol)
	case a.GetName() != name:
		return Info{}, lie("it calls itself %.63q, and its socket is %s.sock", a.GetName(), name)
	case a.GetResource() == "" && a.GetDetects(): // it brings nothing
	case len(a.GetResource()) > 4*maxName || !qualified.MatchString(a.GetResource()):
		return Info{}, lie("resource %.128q: want a domain and a name, as in example.com/fpga", a.GetResource())
	case taken(a.GetResource()):
		return Info{}, lie("resource %s: a plugin cannot bring what Kubernetes or Hilbert has itself", a.GetResource())
	}
	return Info{name, a.GetResource(), clean(a.GetVersion(), maxVersion), a.GetGivesHints(), a.GetDetects()}, nil
}

// taken reports whether a resource is in a domain that is no plugin's.
func taken(resource string) bool {
	domain, _, _ := strings.Cut(resource, "/")
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "hilbert.dev", "nvidia.com"}, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// clean is a text for people.
func clean(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

// index is that of a NUMA node's number.
func (r *reader) index(number int32) (int, bool) {
	for i := range r.machine.NUMA {
		if r.machine.NUMA[i].ID == int(number) && i < topology.MaxNUMANodes {
			return i, true
		}
	}
	return 0, false
}

func (r *reader) amounts(list []*api.Amount) (out topology.Amounts, err error) {
	if len(list) > topology.MaxNUMANodes+1 {
		return out, lie("%d amounts: more than the machine has NUMA nodes", len(list))
	}
	seen := make(map[int32]bool)
	for _, a := range list {
		i, known := r.index(a.GetNumaNode())
		switch {
		case a.GetAmount() < 0 || a.GetAmount() > MaxAmount:
			return out, lie("amount %d: want 0 to %d", a.GetAmount(), int64(MaxAmount))
		case seen[a.GetNumaNode()]:
			return out, lie("NUMA node %d stands twice", a.GetNumaNode())
		case a.GetNumaNode() == -1:
			out.Far = a.GetAmount()
		case !known:
			return out, lie("the machine has no NUMA node %d", a.GetNumaNode())
		default:
			out.NUMA[i] = a.GetAmount()
		}
		seen[a.GetNumaNode()] = true
	}
	return out, nil
}

func (r *reader) hints(a *api.HintsResponse) (out []hint.Hint, err error) {
	if len(a.GetHints()) > maxHints {
		return nil, lie("%d hints: at most %d", len(a.GetHints()), maxHints)
	}
	for _, h := range a.GetHints() {
		one := hint.Hint{Preferred: h.GetPreferred()}
		if len(h.GetNumaNodes()) == 0 || len(h.GetNumaNodes()) > topology.MaxNUMANodes {
			return nil, lie("a hint of %d NUMA nodes", len(h.GetNumaNodes()))
		}
		for _, number := range h.GetNumaNodes() {
			i, known := r.index(number)
			if !known {
				return nil, lie("a hint of NUMA node %d, which the machine does not have", number)
			}
			one.NUMANodes |= 1 << i
		}
		out = append(out, one)
	}
	return out, nil
}

func ids(list []string) error {
	if len(list) > maxIDs {
		return lie("%d ids: at most %d", len(list), maxIDs)
	}
	for i, id := range list {
		if id == "" || len(id) > maxID || clean(id, maxID) != id || slices.Contains(list[:i], id) {
			return lie("id %.128q: want up to %d printable bytes, each once", id, maxID)
		}
	}
	return nil
}

// held reads who has what, as a plugin says.
func (r *reader) held(resource string, list []*api.Allocation) (out []*Holding, err error) {
	if len(list) > maxHeld {
		return nil, lie("%d pods hold it: at most %d", len(list), maxHeld)
	}
	seen := make(map[string]bool)
	for _, a := range list {
		h := &Holding{Resource: resource, Pod: podRef(a.GetPod()), IDs: a.GetIds()}
		if h.Pod.UID == "" || seen[h.Pod.UID] {
			return nil, lie("pod %.128q: it has no UID or stands twice", h.Pod.UID)
		}
		seen[h.Pod.UID] = true
		if h.Amounts, err = r.amounts(a.GetAmounts()); err == nil {
			err = ids(h.IDs)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

func podRef(p *api.Pod) spec.PodRef {
	return spec.PodRef{Namespace: clean(p.GetNamespace(), maxID), Name: clean(p.GetName(), 2*maxID), UID: clean(p.GetUid(), maxID)}
}

// allocation reads what a pod was allocated.
func (r *reader) allocation(q *Request, a *api.AllocateResponse) (h *Holding, err error) {
	h = &Holding{Pod: q.Pod, Resource: q.Resource, IDs: a.GetIds(), Containers: make(map[string]Contribution)}
	if h.Amounts, err = r.amounts(a.GetAmounts()); err != nil {
		return nil, err
	}
	if err := ids(h.IDs); err != nil {
		return nil, err
	}
	if len(a.GetContainers()) > len(q.Containers) {
		return nil, lie("%d containers: %d have asked", len(a.GetContainers()), len(q.Containers))
	}
	for name, c := range a.GetContainers() {
		if h.Containers[name], err = r.contribution(q.Resource, c); err != nil {
			return nil, fmt.Errorf("container %.63q: %w", name, err)
		}
	}
	return h, nil
}

func (r *reader) contribution(resource string, c *api.Contribution) (out Contribution, err error) {
	if out.Env, err = environment(c.GetEnv()); err != nil {
		return out, err
	}
	if out.Devices, err = devices(c.GetDevices()); err != nil {
		return out, err
	}
	if out.Mounts, err = r.mountsOf(c.GetMounts()); err != nil {
		return out, err
	}
	domain, _, _ := strings.Cut(resource, "/")
	if len(c.GetAnnotations()) > maxAnnotations {
		return out, lie("%d annotations: at most %d", len(c.GetAnnotations()), maxAnnotations)
	}
	for key, value := range c.GetAnnotations() {
		if !strings.HasPrefix(key, domain+"/") || !qualified.MatchString(key) || len(value) > maxAnnotation {
			return out, lie("annotation %.128q: want a key that begins with %s/ and at most %d bytes", key, domain, maxAnnotation)
		}
	}
	out.Annotations = maps.Clone(c.GetAnnotations())
	return out, nil
}

// environment reads variables. Those that decide which programs and libraries run, or that other parties set, are no plugin's.
func environment(env map[string]string) (out []string, err error) {
	bytes := 0
	for name, value := range env {
		bytes += len(name) + len(value)
		foreign := name == "PATH" || name == "HOME" || name == "HOSTNAME" ||
			slices.ContainsFunc([]string{"LD_", "KUBERNETES_", "NVIDIA_", "CUDA_"}, func(p string) bool { return strings.HasPrefix(name, p) })
		if !variable.MatchString(name) || strings.ContainsRune(value, 0) || foreign {
			return nil, lie("variable %.63q is not one that a plugin may set", name)
		}
		out = append(out, name+"="+value)
	}
	if len(out) > maxEnv || bytes > maxEnvBytes {
		return nil, lie("%d variables of %d bytes: at most %d of %d", len(out), bytes, maxEnv, maxEnvBytes)
	}
	slices.Sort(out)
	return out, nil
}

// devices reads device files. The kernel's memory and ports (character devices of major 1 that are not null, zero, full and random) are no resource.
func devices(list []*api.Device) (out []Device, err error) {
	if len(list) > maxDevices {
		return nil, lie("%d devices: at most %d", len(list), maxDevices)
	}
	for _, d := range list {
		memory := d.GetType() == "c" && d.GetMajor() == 1 && (d.GetMinor() <= 2 || d.GetMinor() == 4)
		if !strings.HasPrefix(d.GetPath(), "/dev/") || path.Clean(d.GetPath()) != d.GetPath() || (d.GetType() != "c" && d.GetType() != "b") || memory ||
			d.GetMajor() < 0 || d.GetMinor() < 0 || d.GetMajor() > maxDeviceNo || d.GetMinor() > maxDeviceNo {
			return nil, lie("device %.128q (%s %d:%d) is not one that a container may have", d.GetPath(), clean(d.GetType(), 1), d.GetMajor(), d.GetMinor())
		}
		out = append(out, Device{d.GetPath(), d.GetType(), d.GetMajor(), d.GetMinor()})
	}
	return out, nil
}

// mountsOf reads mounts: from the directories that the configuration names, to anywhere but what every container needs as it is.
func (r *reader) mountsOf(list []*api.Mount) (out []Mount, err error) {
	if len(list) > maxMounts {
		return nil, lie("%d mounts: at most %d", len(list), maxMounts)
	}
	for _, m := range list {
		from, to := m.GetHostPath(), m.GetContainerPath()
		if !path.IsAbs(from) || path.Clean(from) != from || !slices.ContainsFunc(r.mounts, func(d string) bool { return below(from, d) }) {
			return nil, lie("mount of %.128q: node.plugins.mounts does not name a directory above it", from)
		}
		if !path.IsAbs(to) || path.Clean(to) != to || to == "/" ||
			slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/etc", "/bin", "/sbin", "/lib", "/usr", "/var/run/secrets", "/run/secrets"}, func(d string) bool { return to == d || below(to, d) && d != "/usr" && d != "/etc" }) {
			return nil, lie("mount at %.128q is in the way of the container's own files", to)
		}
		out = append(out, Mount{from, to, m.GetWritable()})
	}
	return out, nil
}

// below reports whether a path is a directory or lies in it.
func below(name, directory string) bool {
	return name == directory || strings.HasPrefix(name, strings.TrimSuffix(directory, "/")+"/")
}
