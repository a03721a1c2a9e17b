package mps

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEdits(t *testing.T) {
	p := Defaults()
	for _, c := range []struct {
		slice Slice
		want  string // of the environment, or "" for a refusal
	}{
		{Slice{"GPU-a", 250, 10240}, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M"},
		{Slice{"GPU-a", 255, 1}, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25.5 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1M"},
		{Slice{"GPU-a", 7, 100}, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=1 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=100M"},
		{Slice{"GPU-a", 999, 1 << 20}, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=99.9 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1048576M"},
		{Slice{"GPU-a", 1000, 1}, ""},
		{Slice{"GPU-a", 0, 1}, ""},
		{Slice{"GPU-a", -5, 1}, ""},
		{Slice{"GPU-a", 250, 0}, ""},
		{Slice{"", 250, 1}, ""},
		{Slice{"GPU-/../../etc", 250, 1}, ""},
		{Slice{"MIG-a", 250, 1}, ""},
	} {
		e, err := p.Edits(c.slice, "shm-0123456789")
		if got := strings.Join(e.Env, " "); got != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, ErrSlice) {
			t.Errorf("%+v: %q, %v", c.slice, got, err)
		}
		if err == nil && (len(e.Mounts) != 2 || e.Mounts[0].Source != "/run/hilbert/mps/GPU-a/pipe" || e.Mounts[0].Place != "/tmp/nvidia-mps" ||
			e.Mounts[1].Source != "/run/hilbert/mps/GPU-a/shm-0123456789" || e.Mounts[1].Place != "/dev/shm") {
			t.Errorf("%+v: %+v", c.slice, e.Mounts)
		}
	}
	for _, name := range []string{"", "shm-", "../pipe", "shm-01234567/..", "state"} {
		if e, err := p.Edits(Slice{"GPU-a", 250, 1}, name); !errors.Is(err, ErrSlice) {
			t.Errorf("the memory %q: %+v, %v", name, e, err)
		}
	}
	const safely = "nosuid,nodev,noexec"
	for i, want := range []string{"bind,ro," + safely, "bind,rw," + safely} {
		if m := p.Whole("GPU-a", "shm-0123456789").Mounts[i]; strings.Join(m.Options, ",") != want {
			t.Errorf("%+v, want %s", m, want)
		}
	}
	if e := p.Whole("GPU-a", "shm-0123456789"); len(e.Env) != 1 || len(e.Mounts) != 2 {
		t.Errorf("a whole GPU: %+v", e)
	}
}

// TestNeverMore: from one percent on, what MPS reads, whether it takes fractions or cuts them off, is never more than was charged, nor a percent less.
func TestNeverMore(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Defaults()
		milli := rapid.Int16Range(10, 999).Draw(r, "milli")
		e, err := p.Edits(Slice{UUID: "GPU-a", Milli: milli, Memory: 1}, "shm-0123456789")
		if err != nil {
			r.Fatal(err)
		}
		i := slices.IndexFunc(e.Env, func(v string) bool { return strings.HasPrefix(v, threadsVariable) })
		_, text, _ := strings.Cut(e.Env[i], "=")
		exact, err := strconv.ParseFloat(text, 64)
		if err != nil || exact*10 > float64(milli)+1e-9 || exact*10 < float64(milli)-1e-9 {
			r.Fatalf("%d is %s", milli, text)
		}
		whole, _, _ := strings.Cut(text, ".")
		if n, err := strconv.Atoi(whole); err != nil || n < 1 || n*10 > int(milli) || n*10 <= int(milli)-10 {
			r.Fatalf("%d is %s, and cut off %d", milli, text, n)
		}
	})
}

func TestClientLimit(t *testing.T) {
	for version, want := range map[string]int{"": 48, "535.161.08": 48, "580.1": 48, "590.44.01": 60, "1000": 60, "x590": 48, "99999999999999999999999": 60} {
		if got := ClientLimit(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}
