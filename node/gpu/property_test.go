package gpu_test

import (
	"fmt"
	"maps"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/gputest"
	"hilbert.dev/hilbert/topology"
)

// TestNeverAnotherDevice lets anything happen to GPUs, and looks whether an index that is held ever comes to mean another device, whether one that
// is open is known and unique, and whether an agent that starts anew with its checkpoint sees the same.
func TestNeverAnotherDevice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{driver: gputest.New(t), params: gpu.Defaults(), cannot: map[string]string{}, others: map[string]string{}}
		addressOf := map[int]string{}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			befall(r, w)
			before := w.view
			w.look()
			checkHeld(r, &w.held, &before, &w.view)
			for i, s := range w.view.Slots {
				if was, ok := addressOf[i]; ok && was != s.Address {
					r.Fatalf("index %d was %s and is %s", i, was, s.Address)
				}
				addressOf[i] = s.Address
			}
			checkOpen(r, &w.view)
			checkDevices(r, w)
			data, err := w.memory.Save()
			if err != nil {
				r.Fatal(err)
			}
			again, err := gpu.Load(data)
			if err != nil {
				r.Fatal(err)
			}
			o := w.driver.Observation()
			o.Held = w.held
			_, kept := gpu.Step(&w.params, w.memory, &o)
			if _, loaded := gpu.Step(&w.params, again, &o); render(&kept) != render(&loaded) {
				r.Fatalf("after a restart:\n%s\nwithout:\n%s", render(&loaded), render(&kept))
			}
			w.release(r)
		}
	})
}

var places = []string{"0000:3b:00.0", "0000:3c:00.0", "0000:86:00.0"}

// befall lets something happen.
func befall(r *rapid.T, w *world) {
	inv, err := w.driver.Inventory(r.Context())
	if err != nil {
		w.driver.Do("load")
		return
	}
	here := map[string]bool{}
	for _, g := range inv.GPUs {
		here[g.Address] = true
	}
	at := rapid.SampledFrom(places).Draw(r, "address")
	uuid := rapid.SampledFrom([]string{"U1", "U2", "U3", "-"}).Draw(r, "uuid")
	if !here[at] {
		w.driver.Do(fmt.Sprintf("add %s uuid=%s", at, uuid))
		return
	}
	instance := rapid.SampledFrom([]string{"M1", "M2", "M3"}).Draw(r, "instance")
	w.driver.Do(rapid.SampledFrom([]string{
		"remove " + at, "uuid " + at + " " + uuid, "lose " + at, "health " + at + " pending", "health " + at + " well", "health " + at + " uncorrected",
		"compute " + at + " Default", "compute " + at + " Prohibited", "memory " + at + " 0", "memory " + at + " 40000", "mig " + at + " on",
		"mig " + at + " off", "mig " + at + " changing", "unmake " + at + " " + instance, "instance " + at + " " + instance + " 1g.5gb 1 14 4864",
		"instance " + at + " " + instance + " 1g.5gb 2 14 4864", "xid " + at + " 79", "unload", "hang", "reboot", "",
	}).Draw(r, "event"))
}

// checkHeld: what is held is what it was.
func checkHeld(r *rapid.T, held *gpu.Held, before, now *gpu.View) {
	for i := range before.Slots {
		if held.GPUs&(1<<i) == 0 {
			continue
		}
		if was, is := before.Slots[i].GPU.UUID, now.Slots[i].GPU.UUID; was != is {
			r.Fatalf("GPU %d is held, was %s and is %s", i, was, is)
		}
		for k := range before.Slots[i].Instances {
			if held.Instances[i]&(1<<k) == 0 {
				continue
			}
			if k >= len(now.Slots[i].Instances) || now.Slots[i].Instances[k].UUID != before.Slots[i].Instances[k].UUID {
				r.Fatalf("instance %d of GPU %d is held and is another one: %+v", k, i, now.Slots[i].Instances)
			}
		}
	}
}

// checkOpen: what may be given is known, well, and nobody else's name.
func checkOpen(r *rapid.T, v *gpu.View) {
	names := map[string]int{}
	for i := range v.Slots {
		s := &v.Slots[i]
		for _, in := range s.Instances {
			if s.Closed == "" && !in.Gone {
				names[in.UUID]++
			}
		}
		if s.Closed != "" {
			continue
		}
		names[s.GPU.UUID]++
		if g := &s.GPU; g.UUID == "" || g.Memory == 0 || g.Compute != gpu.ComputeDefault || g.Health.RepairPending == gpu.Yes || g.MIG == gpu.MIGChanging {
			r.Fatalf("GPU %d is open: %+v", i, g)
		}
	}
	for name := range maps.Keys(names) {
		if names[name] > 1 || name == "" {
			r.Fatalf("%q is open %d times", name, names[name])
		}
	}
}

func checkDevices(r *rapid.T, w *world) {
	d := w.view.Devices(&w.params, nil, topology.OwnerHilbert, func(string) bool { return true })
	if err := d.Check(); err != nil {
		r.Fatal(err)
	}
	for i := range d.GPU {
		for k, in := range d.GPU[i].Instances {
			if w.view.Slots[i].Instances[k].Gone && (in.Milli != 0 || in.Memory != 0) {
				r.Fatalf("an instance that is gone gives %+v", in)
			}
		}
	}
}

// release changes who holds what: an open GPU or instance may be given, a held one let go.
func (w *world) release(r *rapid.T) {
	for i := range w.view.Slots {
		s := &w.view.Slots[i]
		if w.held.GPUs&(1<<i) != 0 {
			if rapid.Bool().Draw(r, "drop") {
				w.held.GPUs &^= 1 << i
				w.held.Instances[i] = 0
			}
			continue
		}
		if s.Closed != "" || !rapid.Bool().Draw(r, "hold") {
			continue
		}
		w.held.GPUs |= 1 << i
		for k, in := range s.Instances {
			if !in.Gone && bits.OnesCount16(w.held.Instances[i]) == 0 {
				w.held.Instances[i] |= 1 << k
			}
		}
	}
}
