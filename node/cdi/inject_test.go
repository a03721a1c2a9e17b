package cdi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestInject: who gets what. A line of want is what a container gets.
func TestInject(t *testing.T) {
	const (
		nothing = ""
		hidden  = "env NVIDIA_VISIBLE_DEVICES=void"
	)
	ours, others := Node{Ours: true, All: "nvidia.com/gpu=all"}, Node{All: "nvidia.com/gpu=all"}
	whole := &Grant{GPUs: []string{"nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"}, Cards: []string{"hilbert.dev/nic=0000:3b:00.1"}}
	slice := &Grant{GPUs: []string{"nvidia.com/gpu=GPU-a"}, Soft: Edits{
		Env: []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"}, Mounts: []Mount{{"/run/hilbert/mps/GPU-a/pipe", "/tmp/nvidia-mps", []string{"bind"}}},
	}}
	card := &Grant{Cards: []string{"hilbert.dev/nic=0000:3b:00.1"}}
	all := []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"}
	const both = "nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-b hilbert.dev/nic=0000:3b:00.1 " + hidden
	for _, c := range []struct {
		what string
		node Node
		pod  Pod
		box  Container
		want string
	}{
		{"no grant", ours, Pod{}, Container{Name: "main"}, hidden},
		{"no grant, and the image asks for all", ours, Pod{}, Container{Name: "main", Env: all}, hidden},
		{"no grant, and it asks by a mount", ours, Pod{}, Container{Mounts: []string{"/data", "/var/run/nvidia-container-devices/all"}}, hidden + " without /var/run/nvidia-container-devices/all"},
		{
			"the mount is spelled in another way", ours,
			Pod{},
			Container{Mounts: []string{"/var//run/x/../nvidia-container-devices/./all", "/var/run/nvidia-container-devicesall"}},
			hidden + " without /var//run/x/../nvidia-container-devices/./all",
		},
		{"GPUs are somebody else's", others, Pod{}, Container{Name: "main", Env: all}, nothing},
		{"whole GPUs and a card", ours, Pod{Grant: whole}, Container{Name: "main", Env: all}, both},
		{"it keeps its GPUs when they are no longer ours", others, Pod{Grant: whole}, Container{Name: "main"}, both},
		{"a slice", ours, Pod{Grant: slice}, Container{Name: "main"}, "nvidia.com/gpu=GPU-a " + hidden + " env CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 mount /run/hilbert/mps/GPU-a/pipe at /tmp/nvidia-mps"},
		{"a card alone", ours, Pod{Grant: card}, Container{Name: "main", Env: all}, "hilbert.dev/nic=0000:3b:00.1 " + hidden},
		{"a card alone, GPUs somebody else's", others, Pod{Grant: card}, Container{Name: "main", Env: all}, "hilbert.dev/nic=0000:3b:00.1"},
		{"nobody knows who asks: a sidecar", ours, Pod{Grant: whole}, Container{Name: "proxy"}, both},
		{"nobody knows who asks: an init container", ours, Pod{Grant: whole}, Container{Name: "init"}, both},
		{"it asks", ours, Pod{Grant: whole, Asking: []string{"main", "init"}}, Container{Name: "init"}, both},
		{"it does not ask", ours, Pod{Grant: whole, Asking: []string{"main"}}, Container{Name: "proxy", Env: all}, hidden},
		{"it does not ask, and GPUs are somebody else's now", others, Pod{Grant: whole, Asking: []string{"main"}}, Container{Name: "proxy", Env: all}, hidden},
		{"none asks", ours, Pod{Grant: whole, Asking: []string{}}, Container{Name: "main"}, hidden},
		{"an observer", ours, Pod{Observer: true}, Container{Env: all}, "nvidia.com/gpu=all " + hidden},
		{"an observer that does not ask", ours, Pod{Observer: true}, Container{}, nothing},
		{"an observer that wants none", ours, Pod{Observer: true}, Container{Env: []string{"NVIDIA_VISIBLE_DEVICES=none"}}, nothing},
		{"an observer, and no device is all of them", Node{Ours: true}, Pod{Observer: true}, Container{Env: all}, nothing},
		{"an observer, and GPUs are nobody's yet", Node{All: "nvidia.com/gpu=all"}, Pod{Observer: true}, Container{Env: all}, "nvidia.com/gpu=all " + hidden},
		{"an observer, and GPUs are somebody else's", Node{}, Pod{Observer: true}, Container{Env: all}, nothing},
	} {
		e, err := Inject(&c.node, &c.pod, &c.box)
		if got := say(e); err != nil || got != c.want {
			t.Errorf("%s:\n%s (%v), want\n%s", c.what, got, err, c.want)
		}
	}
}

func say(e Edits) string {
	words := slices.Clone(e.Devices)
	for _, v := range e.Env {
		words = append(words, "env "+v)
	}
	for _, m := range e.Mounts {
		words = append(words, fmt.Sprintf("mount %s at %s", m.Source, m.Place))
	}
	for _, place := range e.Without {
		words = append(words, "without "+place)
	}
	return strings.Join(words, " ")
}

// TestNoGrantNoGPU: on a node of ours nothing but a grant, or being an observer, leads to a GPU, and nothing is changed that was passed in.
func TestNoGrantNoGPU(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b"})
		n := Node{Ours: rapid.Bool().Draw(r, "ours"), All: rapid.SampledFrom([]string{"", "nvidia.com/gpu=all"}).Draw(r, "all")}
		p := Pod{Observer: rapid.Bool().Draw(r, "observer")}
		if rapid.Bool().Draw(r, "granted") {
			p.Grant = &Grant{GPUs: []string{"nvidia.com/gpu=GPU-a"}, Soft: Edits{Env: []string{"X=1"}}}
		}
		if rapid.Bool().Draw(r, "known") {
			p.Asking = rapid.SliceOfN(name, 0, 2).Draw(r, "asking")
		}
		c := Container{Name: name.Draw(r, "name"), Env: rapid.SliceOf(rapid.SampledFrom([]string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void", "A=b"})).Draw(r, "env")}
		e, err := Inject(&n, &p, &c)
		if err != nil {
			if c.count(visible) < 2 || say(e) != "" {
				r.Fatalf("%v: %v, and %+v", c.Env, err, e)
			}
			return
		}
		entitled := p.Grant != nil && (p.Asking == nil || slices.Contains(p.Asking, c.Name))
		switch {
		case entitled != slices.Contains(e.Devices, "nvidia.com/gpu=GPU-a"):
			r.Fatalf("entitled: %t, and it gets %+v", entitled, e)
		case !entitled && !p.Observer && len(e.Devices) > 0:
			r.Fatalf("it gets %+v without a grant", e)
		case (n.Ours || p.Grant != nil) && !p.Observer && !slices.Contains(e.Env, "NVIDIA_VISIBLE_DEVICES=void"):
			r.Fatalf("NVIDIA's runtime may add GPUs to %+v", e)
		}
		if again, err := Inject(&n, &p, &c); err != nil || !reflect.DeepEqual(e, again) {
			r.Fatal("the second time it is another answer")
		}
		// A runtime may replace the first value or the last, and a program may read either.
		for _, from := range [][]string{c.Env, backwards(c.Env)} {
			env := replaced(from, e.Env)
			for _, reads := range [][]string{env, backwards(env)} {
				if value := valueOf(reads, visible); slices.Contains(e.Env, visible+"="+void) && value != void {
					r.Fatalf("of %v a program reads %q", env, value)
				}
			}
		}
	})
}

func backwards(env []string) []string {
	out := slices.Clone(env)
	slices.Reverse(out)
	return out
}

// replaced is an environment in which the first variable of each name has its new value.
func replaced(env, by []string) []string {
	out := slices.Clone(env)
	for _, variable := range by {
		name, _, _ := strings.Cut(variable, "=")
		i := slices.IndexFunc(out, func(has string) bool { return strings.HasPrefix(has, name+"=") })
		if i < 0 {
			out = append(out, variable)
		} else {
			out[i] = variable
		}
	}
	return out
}

// valueOf is what a program reads that takes the first variable of a name.
func valueOf(env []string, name string) string {
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
